"""A voter's real files where only processes die, never hosts: what was written is there, synced or not.

For power loss there is `tests/simulation/cluster/disk.py`, which keeps what was synced and is therefore slower.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from cluster.checkpoint_store import CheckpointStore
from cluster.flushing import WalFlush
from cluster.log_store import LogStore
from cluster.ports import Identity, StateMachine
from tests.simulation.cluster.disk import Mortal
from tests.simulation.cluster.recording import CHECKPOINT, RAFT


class Closing(Protocol):
    """What a dead process has open."""

    def close(self) -> None: ...


class _Ended:
    """Ends a connection: closing alone would leave a lock behind as long as anybody holds a cursor of it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def close(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._db.close()


class Flush(WalFlush):
    """The flush of raft.db's WAL with a place to die before and after it; nothing hangs on the sync itself."""

    def __init__(self, path: Path, point: Callable[[], None]) -> None:
        super().__init__(path)
        self._point = point

    def __call__(self) -> None:
        self._point()
        self._point()


class Checkpoint(CheckpointStore):
    """The real store on connections that can die."""

    def __init__(self, folder: Path, wrap: Callable[[sqlite3.Connection], Mortal], *rest: Any) -> None:
        self._wrap = wrap
        super().__init__(folder / CHECKPOINT, *rest)

    def _connect(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self._wrap(super()._connect()))


class PlainDisk:
    """The folder of one voter; every life finds it as the one before left it."""

    def __init__(self, home: Path, voter: str) -> None:
        self.voter = voter
        self.folder = home / "0"
        self._open: list[Closing] = []

    def open(
        self, identity: Identity, machine: StateMachine, point: Callable[[], None], has_space: Callable[[], bool]
    ) -> tuple[LogStore, CheckpointStore]:
        """Open both stores."""

        def wrap(db: sqlite3.Connection) -> Mortal:
            self._open.append(_Ended(db))
            return Mortal(db, point, has_space)

        path = self.folder / RAFT
        log = LogStore(path)
        log._db = wrap(log._db)
        log._wal_flush = Flush(path, point)
        self._open.append(log._mark)
        return log, Checkpoint(self.folder, wrap, identity, machine, log.first_index)

    def die(self, *, power: bool) -> None:
        """Leave everything where it is; a transaction under way never was."""
        assert not power, "this disk does not know what was synced"
        while self._open:
            self._open.pop().close()
