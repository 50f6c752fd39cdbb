import stat
from pathlib import Path

import pytest

from cluster.outcome import Unfit
from cluster.regress import Floor, Mark
from cluster.side_mark import SLOT_BYTES, OpenMark, SideMark, create

DISK = f"{1:032x}"
MARKS = [Mark(7, 3, 40), Mark(8, 3, 41), Mark(9, 4, 30, Floor(3, 41))]


class Recording(OpenMark):
    """The real file, and what was done to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.done: list[str] = []

    def write(self, content: bytes, offset: int) -> None:
        self.done.append(f"write {offset}")
        super().write(content, offset)

    def sync(self) -> None:
        self.done.append("sync")
        super().sync()

    def close(self) -> None:
        self.done.append("close")
        super().close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create(tmp_path / "raft.mark", DISK)
    return tmp_path / "raft.mark"


def opened(path: Path) -> SideMark:
    return SideMark.open(path, OpenMark, DISK)


def newest(path: Path) -> Mark:
    mark = opened(path)
    mark.close()
    return mark.newest


def put(path: Path, *marks: Mark) -> None:
    mark = opened(path)
    for each in marks:
        mark.put(each, durably=False)
    mark.close()


def test_a_new_disk_has_the_mark_of_a_log_without_history(path: Path) -> None:
    assert newest(path) == Mark(0, 0, 1, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        create(path, DISK)


def test_the_newest_mark_is_read_back_whichever_slot_it_is_in(path: Path) -> None:
    size = path.stat().st_size
    for count in range(1, len(MARKS) + 1):
        put(path, MARKS[count - 1])
        assert newest(path) == MARKS[count - 1]
    assert path.stat().st_size == size == 2 * SLOT_BYTES, "in place: a full disk does not matter"


def test_only_a_durable_mark_is_synced_and_each_goes_into_the_other_slot(path: Path) -> None:
    files: list[Recording] = []

    def recorded(path: Path) -> Recording:
        files.append(Recording(path))
        return files[-1]

    mark = SideMark.open(path, recorded, DISK)
    for each, durably in zip(MARKS, (False, True, False), strict=True):
        mark.put(each, durably=durably)
        assert mark.newest == each
    assert files[0].done == ["write 4096", "write 0", "sync", "write 4096"]
    mark.close()


@pytest.mark.parametrize("writes", [2, 3])
def test_a_write_cut_short_at_any_byte_leaves_it_or_the_one_before(path: Path, writes: int) -> None:
    put(path, *MARKS[: writes - 1])
    before = path.read_bytes()
    put(path, MARKS[writes - 1])
    after = path.read_bytes()
    start = writes % 2 * SLOT_BYTES
    found = set()
    for place in range(start, start + 80):
        path.write_bytes(
            after[:place] + before[place:] if start else after[:place] + before[place:SLOT_BYTES] + before[SLOT_BYTES:]
        )
        found.add(newest(path))
        assert found <= {MARKS[writes - 2], MARKS[writes - 1]}
    assert found == {MARKS[writes - 2], MARKS[writes - 1]}


def test_a_flipped_bit_leaves_the_one_before(path: Path) -> None:
    put(path, *MARKS[:2])
    whole = path.read_bytes()
    length = len(whole[:SLOT_BYTES].rstrip(b"\0"))
    assert length > 50
    for place in range(length):
        rotten = bytearray(whole)
        rotten[place] ^= 0x10
        path.write_bytes(rotten)
        assert newest(path) == MARKS[0]


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "zeros", "both rotten", "of another disk", "a folder"])
def test_a_mark_that_tells_nothing_is_unfit_with_what_to_do(path: Path, damage: str) -> None:
    put(path, *MARKS)
    whole = path.read_bytes()
    path.unlink()
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "short":
            path.write_bytes(whole[:40])
        case "zeros":
            path.write_bytes(bytes(len(whole)))
        case "both rotten":
            path.write_bytes(bytes(b ^ 1 if b else 0 for b in whole))
        case "of another disk":
            create(path, f"{2:032x}")
        case "a folder":
            path.mkdir()
    files: list[Recording] = []
    with pytest.raises(Unfit) as unfit:
        SideMark.open(path, lambda path: files.append(Recording(path)) or files[0], DISK)
    assert str(unfit.value).startswith(f"{path}: ")
    assert "replace this voter's disk" in str(unfit.value)
    assert "\n" not in str(unfit.value)
    assert [file.done for file in files] == ([] if damage in {"missing", "a folder"} else [["close"]])
