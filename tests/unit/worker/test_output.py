import os
from pathlib import Path

import pytest

from worker.engine.output import MAX_FILE_BYTES, BoundedFile, tail_text


def kept(path: Path, chunks: list[bytes], *, head: int = 10, ring: int = 8) -> bytes:
    sink = BoundedFile(path, head=head, ring=ring)
    for chunk in chunks:
        sink.take(chunk)
    sink.close()
    sink.close()
    return path.read_bytes()


@pytest.mark.parametrize("size", range(19))
def test_what_fits_is_kept_whole(folder: Path, size: int) -> None:
    content = bytes(range(65, 65 + size))
    for step in (1, 3, 100):
        chunks = [content[at : at + step] for at in range(0, size, step)]
        assert kept(folder / "out", chunks) == content


@pytest.mark.parametrize("size", [19, 25, 26, 27, 100, 1003])
@pytest.mark.parametrize("step", [1, 7, 8, 9, 5000])
def test_head_and_tail_are_kept_and_the_cut_is_marked(folder: Path, size: int, step: int) -> None:
    content = bytes(65 + at % 26 for at in range(size))
    chunks = [content[at : at + step] for at in range(0, size, step)]
    mark = f"\n[fencepost: {size - 18} bytes cut here]\n".encode()
    assert kept(folder / "out", chunks) == content[:10] + mark + content[-8:]


def test_the_file_stays_below_its_limit(folder: Path) -> None:
    sink = BoundedFile(folder / "out")
    for _ in range(64):
        sink.take(bytes(1 << 16))
    assert (folder / "out").stat().st_size <= MAX_FILE_BYTES
    sink.close()
    assert MAX_FILE_BYTES - 100 < (folder / "out").stat().st_size <= MAX_FILE_BYTES
    assert (folder / "out").stat().st_mode & 0o077 == 0


def test_a_full_disk_ends_the_keeping_and_nothing_else(folder: Path) -> None:
    sink = BoundedFile(folder / "out")
    os.dup2(os.open("/dev/full", os.O_RDWR), sink._handle)
    sink.take(b"kept nowhere, but its end is known")
    sink.take(b", still")
    assert sink.last == b"kept nowhere, but its end is known, still"
    sink.close()


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        ((b"", b"out"), "out"),
        ((b"err\n", b"out"), "err"),
        ((b" \n", b""), ""),
        ((b"\xff\xfe",), "\ufffd\ufffd"),
    ],
)
def test_the_tail_is_the_first_stream_that_says_anything(streams: tuple[bytes, ...], said: str) -> None:
    assert tail_text(*streams) == said


def test_the_tail_is_at_most_a_kibibyte_of_utf8() -> None:
    for stream in (b"\xff" * 1024, "\u20ac".encode() * 341 + b"x", b"a" * 5000):
        assert len(tail_text(stream).encode()) <= 1024
    assert tail_text(b"a" * 5000 + b"end").endswith("end")
