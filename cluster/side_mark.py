"""raft.mark: a few bytes beside raft.db that tell how far it has come, so that a store that went back is noticed.

Written after each sync of raft.db and before anything of that tick leaves, so it never says more than raft.db holds.
Synced itself only where a term, a vote or a floor changed; else the kernel writes it when it likes, and a power loss
may leave a mark that is older than its store, which is no alarm. Two slots are used in turn, each in a page of its own:
a write that is cut short leaves the other one.
"""

import os
import struct
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, Self

from cluster import durable
from cluster.outcome import Unfit
from cluster.regress import Floor, Mark

FILE_NAME: Final = "raft.mark"
SLOT_BYTES: Final = 4096  # from one slot to the next: no write, and no page of a disk, touches both

_MAGIC: Final = b"FPM1"
_WORDS: Final = struct.Struct("<4s6Q")  # magic, turn, syncs, term, last index, floor's term and index (0, 0 = none)
_SUM: Final = struct.Struct("<I")
_FIRST: Final = Mark(syncs=0, term=0, last_index=1)  # of a log that holds nothing but its initial entry


class MarkFile(Protocol):
    """The bytes of a mark; whatever fails is an `OSError`."""

    def read(self) -> bytes:
        """Return all of it."""
        ...

    def write(self, content: bytes, offset: int) -> None:
        """Write into its present length; durable with the next `sync`."""
        ...

    def sync(self) -> None:
        """Make what was written durable."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class OpenMark:
    """The real file."""

    def __init__(self, path: Path) -> None:
        """Open it to read and write."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return all of it."""
        return os.pread(self._descriptor, 2 * SLOT_BYTES, 0)

    def write(self, content: bytes, offset: int) -> None:
        """Write into its present length; durable with the next `sync`."""
        if os.pwrite(self._descriptor, content, offset) != len(content):
            raise OSError(f"only a part of {len(content)} bytes was written")

    def sync(self) -> None:
        """Make what was written durable."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


class SideMark:
    """The mark of one raft.db.

    Attributes:
        newest: what was written last, durable or not.
    """

    def __init__(self, file: MarkFile, disk_id: str, turn: int, newest: Mark) -> None:
        """Take over an open file; most callers want `open()`."""
        self._file, self._disk_id, self._turn, self.newest = file, disk_id, turn, newest

    @classmethod
    def open(cls, path: Path, open_file: Callable[[Path], MarkFile], disk_id: str) -> Self:
        """Read a mark.

        Raises:
            Unfit: the file is missing or cannot be read, or neither slot holds a mark of this disk.
        """
        with ExitStack() as closing:
            try:
                file = open_file(path)
                closing.callback(file.close)
                content = file.read()
            except OSError as error:
                raise _unreadable(path, str(error.strerror)) from error
            slots = [_decoded(content[start : start + SLOT_BYTES], disk_id) for start in (0, SLOT_BYTES)]
            found = max((slot for slot in slots if slot is not None), key=lambda slot: slot[0], default=None)
            if found is None:
                raise _unreadable(path, "it holds no mark of this disk")
            closing.pop_all()
        return cls(file, disk_id, *found)

    def put(self, mark: Mark, *, durably: bool) -> None:
        """Write a mark into the slot that does not hold the newest one.

        Blocks: for one fdatasync, if it is to be durable.

        Raises:
            OSError: it failed; what is on disk may be this mark or the one before.
        """
        self._turn += 1
        self._file.write(_encoded(self._turn, mark, self._disk_id), self._turn % 2 * SLOT_BYTES)
        if durably:
            self._file.sync()
        self.newest = mark

    def close(self) -> None:
        """Close the file; the kernel writes what is not durable yet."""
        self._file.close()


def create(path: Path, disk_id: str) -> None:
    """Write the mark of a new disk and make its bytes durable; its name is for the caller to make so.

    Raises:
        OSError: it is there already, or cannot be written.
    """
    slot = _encoded(0, _FIRST, disk_id).ljust(SLOT_BYTES, b"\0")
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(slot + bytes(SLOT_BYTES))
    durable.sync_file(path)


def _unreadable(path: Path, why: str) -> Unfit:
    """Return the one line for a mark that is missing or tells nothing."""
    return Unfit(
        f"{path}: {why}; without its mark nobody knows whether raft.db has lost anything that this voter promised, so"
        " put back the file that was there, or replace this voter's disk"
    )


def _encoded(turn: int, mark: Mark, disk_id: str) -> bytes:
    words = _WORDS.pack(_MAGIC, turn, mark.syncs, mark.term, mark.last_index, *(mark.floor or (0, 0)))
    return words + _SUM.pack(_sum_of(words, disk_id))


def _decoded(slot: bytes, disk_id: str) -> tuple[int, Mark] | None:
    """Return the turn and the mark in a slot; None if it is torn, rotten, empty or of another disk."""
    words, told = slot[: _WORDS.size], slot[_WORDS.size : _WORDS.size + _SUM.size]
    if len(told) != _SUM.size or _SUM.unpack(told)[0] != _sum_of(words, disk_id):
        return None
    magic, turn, syncs, term, last_index, floor_term, floor_index = _WORDS.unpack(words)
    floor = Floor(floor_term, floor_index) if floor_index else None
    return (turn, Mark(syncs, term, last_index, floor)) if magic == _MAGIC else None


def _sum_of(words: bytes, disk_id: str) -> int:
    """Return the CRC-32 over the disk's identity and the words: another disk's mark does not pass."""
    return zlib.crc32(words, zlib.crc32(disk_id.encode()))
