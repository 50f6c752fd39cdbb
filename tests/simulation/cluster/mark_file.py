"""The side mark's file on a simulated disk: a place to die at each act; a sync is told to the disk."""

from collections.abc import Callable
from pathlib import Path

from cluster.side_mark import OpenMark


class SimulatedMark:
    """The real file; what was written and not synced is in the page cache only."""

    def __init__(self, path: Path, point: Callable[[], None], synced: Callable[[str], None]) -> None:
        self._file, self._name, self._point, self._synced = OpenMark(path), path.name, point, synced

    def read(self) -> bytes:
        return self._file.read()

    def write(self, content: bytes, offset: int) -> None:
        self._point()
        self._file.write(content, offset)
        self._point()

    def sync(self) -> None:
        self._point()
        self._synced(self._name)
        self._point()

    def close(self) -> None:
        self._file.close()
