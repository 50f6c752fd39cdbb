"""The side mark's file on a simulated disk: a place to die at each act, and what was not synced may be lost."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from cluster.side_mark import OpenMark

SECTOR = 512


class SimulatedMark:
    """The real file; each sector of it that was written and not synced is in the page cache only."""

    def __init__(self, path: Path, point: Callable[[], None]) -> None:
        self._file, self._point = OpenMark(path), point
        self._durable = self._file.read()

    def read(self) -> bytes:
        return self._file.read()

    def write(self, content: bytes, offset: int) -> None:
        self._point()
        self._file.write(content, offset)
        self._point()

    def sync(self) -> None:
        self._point()
        self._durable = self._file.read()
        self._point()

    def close(self) -> None:
        self._file.close()

    def after_power_loss(self, random: Random) -> bytes:
        """Return what a power loss leaves: of each sector the old bytes, the new ones, or some of each."""
        left, now = bytearray(self._durable), self._file.read()
        for start in range(0, len(now), SECTOR):
            new = now[start : start + SECTOR]
            if new != self._durable[start : start + SECTOR]:
                written = random.choice((0, SECTOR, random.randint(0, SECTOR)))
                left[start : start + written] = new[:written]
        return bytes(left)
