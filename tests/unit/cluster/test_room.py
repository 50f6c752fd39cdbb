from pathlib import Path

import pytest

from cluster.room import RECOVERY_BYTES, RESERVE_BYTES, Room, boundless, free_bytes_of


class Free:
    def __init__(self, free: int) -> None:
        self.free = free

    def __call__(self) -> int:
        return self.free


@pytest.mark.parametrize(("free", "full"), [(0, True), (RESERVE_BYTES - 1, True), (RESERVE_BYTES, False)])
def test_below_the_reserve_the_disk_counts_as_full(free: int, full: bool) -> None:
    assert Room(Free(free)).full is full


def test_it_stays_full_until_there_is_clearly_space() -> None:
    free = Free(0)
    room = Room(free)
    for now, full in ((RESERVE_BYTES + RECOVERY_BYTES - 1, True), (RESERVE_BYTES + RECOVERY_BYTES, False)):
        free.free = now
        room.look()
        assert room.full is full
    free.free = RESERVE_BYTES
    room.look()
    assert not room.full


def test_the_trouble_says_how_much_is_free_and_how_much_is_needed() -> None:
    assert Room(boundless).trouble is None
    words = str(Room(Free(3 << 20)).trouble)
    assert "3 MiB are free" in words
    assert "40 MiB are needed" in words


def test_production_asks_the_file_system(tmp_path: Path) -> None:
    assert free_bytes_of(tmp_path)() > 0
    with pytest.raises(OSError, match="gone"):
        free_bytes_of(tmp_path / "gone")()
