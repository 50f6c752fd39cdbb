"""Whether the disk has room for what one tick may write; decided before anything is begun.

A write that has begun and fails ends the process (`FailStop`), so a full disk must be noticed earlier: below the
reserve this voter writes nothing at all, and everything it could have promised, it does not promise.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

FreeBytes = Callable[[], int]  # bytes that this process may still write where its stores lie

RESERVE_BYTES: Final = 32 << 20
"""More than one tick writes: 4 MiB of proposals or a window of 4 MiB from a leader, and as much applied, each once in
a WAL and once more when SQLite moves it into the file."""
RECOVERY_BYTES: Final = 8 << 20  # above the reserve before writing begins again, so that it does not flap

_MIB: Final = 1 << 20


def free_bytes_of(folder: Path) -> FreeBytes:
    """Return the port for the file system that holds a folder."""

    def free() -> int:
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize

    return free


def boundless() -> int:
    """Return the room on a disk that never fills, for stores whose disk is of no interest."""
    return 2 * (RESERVE_BYTES + RECOVERY_BYTES)


class Room:
    """What the last look at the disk found.

    Attributes:
        full: nothing may be written until a later look finds space.
    """

    def __init__(self, free_bytes: FreeBytes) -> None:
        """Take the first look."""
        self._free_bytes = free_bytes
        self.full = False
        self.look()

    def look(self) -> None:
        """Look again; once before each tick writes anything."""
        self._free = self._free_bytes()
        self.full = self._free < RESERVE_BYTES + (RECOVERY_BYTES if self.full else 0)

    def has(self, needed_bytes: int) -> bool:
        """Whether so much may be written beside what ticks write: the reserve is left to them."""
        return not self.full and self._free >= RESERVE_BYTES + needed_bytes

    @property
    def trouble(self) -> str | None:
        """Why this voter is not ready, in words for a person; None while there is room."""
        if not self.full:
            return None
        needed = (RESERVE_BYTES + RECOVERY_BYTES) // _MIB
        return (
            f"disk full: {self._free // _MIB} MiB are free in the data folder, {needed} MiB are needed; this voter"
            " neither leads, votes nor follows until there is space, and then goes on by itself"
        )
