"""A voter's real files, and what each way of dying leaves of them."""

import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from cluster.checkpoint_store import CheckpointStore
from cluster.flushing import WalFlush
from cluster.log_store import LogStore
from cluster.ports import Identity, StateMachine
from cluster.side_mark import MarkFile
from tests.simulation.cluster.mark_file import SimulatedMark

FILES = ("raft.db", "raft.db-wal", "raft.mark", "checkpoint.db", "checkpoint.db-wal", "checkpoint.db.incoming")


class Connection:
    """A SQLite connection with a place to die before and after every statement; on a full disk all but reads fail."""

    def __init__(
        self, db: sqlite3.Connection, wal: Path, point: Callable[[], None], has_space: Callable[[], bool]
    ) -> None:
        self._db, self._wal, self._point, self._has_space = db, wal, point, has_space
        self.durable_bytes = self._size()

    def _size(self) -> int:
        return self._wal.stat().st_size if self._wal.exists() else 0

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self._point()
        if not sql.startswith("SELECT"):
            self._demand_space()
        cursor = self._db.execute(sql, *args)
        if "wal_checkpoint" in sql:
            self.synced()
        self._point()
        return cursor

    def synced(self) -> None:
        self.durable_bytes = self._size()

    def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self._point()
        self._demand_space()
        return self._db.executemany(sql, *args)

    def _demand_space(self) -> None:
        if not self._has_space():
            raise sqlite3.OperationalError("database or disk is full")

    def close(self) -> None:
        self._db.close()


class Flush(WalFlush):
    """The real flush of a WAL, with a place to die before and after it."""

    def __init__(self, path: Path, wrapped: Connection, point: Callable[[], None]) -> None:
        super().__init__(path)
        self._wrapped, self._point = wrapped, point

    def __call__(self) -> None:
        self._point()
        super().__call__()
        self._wrapped.synced()
        self._point()


class Log(LogStore):
    """The real store, on a connection that can die; only its flush makes durable what was committed."""

    def __init__(
        self,
        folder: Path,
        open_mark: Callable[[Path], MarkFile],
        point: Callable[[], None],
        has_space: Callable[[], bool],
    ) -> None:
        path = folder / "raft.db"
        super().__init__(path, open_mark)
        self.wrapped = Connection(self._db, folder / "raft.db-wal", point, has_space)
        self._db = self.wrapped  # type: ignore[assignment]  # stands in for the connection
        self._wal_flush = Flush(path, self.wrapped, point)


class Checkpoint(CheckpointStore):
    """The real store, on connections that can die; it opens a new one when it installs a snapshot."""

    def __init__(
        self,
        disk: "Disk",
        identity: Identity,
        machine: StateMachine,
        log_start: int,
        point: Callable[[], None],
        has_space: Callable[[], bool],
    ) -> None:
        self._disk, self._point, self._has_space = disk, point, has_space
        super().__init__(disk.folder / "checkpoint.db", identity, machine, log_start)

    def _connect(self) -> sqlite3.Connection:
        wal = self._disk.folder / "checkpoint.db-wal"
        wrapped = Connection(super()._connect(), wal, self._point, self._has_space)
        self._disk.checkpoint_db = wrapped
        return wrapped  # type: ignore[return-value]  # stands in for the connection


class Disk:
    """The folder of one voter; every death moves to a copy, as the next life finds it."""

    def __init__(self, home: Path, random: Random) -> None:
        self._home, self._random, self._lives = home, random, 0
        self.folder = home / "0"
        self.checkpoint_db: Connection

    def open(
        self, identity: Identity, machine: StateMachine, point: Callable[[], None], has_space: Callable[[], bool]
    ) -> tuple[LogStore, CheckpointStore]:
        log = Log(self.folder, partial(self._open_mark, point), point, has_space)
        self._log_db = log.wrapped
        checkpoint = Checkpoint(self, identity, machine, log.first_index, point, has_space)
        return log, checkpoint

    def _open_mark(self, point: Callable[[], None], path: Path) -> SimulatedMark:
        self._mark = SimulatedMark(path, point)
        return self._mark

    def wals_synced(self) -> None:
        """A WAL checkpoint off the loop syncs the WAL before it copies anything out of it."""
        self._log_db.synced()
        self.checkpoint_db.synced()

    def die(self, *, power: bool) -> None:
        """Keep the page cache (kill -9), or only what was synced and any prefix of the rest (power loss)."""
        self._lives += 1
        left = self._home / str(self._lives)
        left.mkdir()
        for name in FILES:
            source = self.folder / name
            if source.exists():
                shutil.copyfile(source, left / name)
        if power:
            self._cut(left / "raft.db-wal", self._log_db.durable_bytes)
            self._cut(left / "checkpoint.db-wal", self.checkpoint_db.durable_bytes)
            (left / "raft.mark").write_bytes(self._mark.after_power_loss(self._random))
        self.folder = left

    def _cut(self, wal: Path, durable_bytes: int) -> None:
        if wal.exists():
            size = wal.stat().st_size
            with wal.open("r+b") as file:
                file.truncate(self._random.randint(min(durable_bytes, size), size))
