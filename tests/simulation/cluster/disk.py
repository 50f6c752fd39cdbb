"""A voter's real files, and what each way of dying leaves of them."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from cluster.checkpoint_store import CheckpointStore
from cluster.log_store import LogStore
from cluster.ports import Identity, StateMachine

FILES = ("raft.db", "raft.db-wal", "checkpoint.db", "checkpoint.db-wal", "checkpoint.db.incoming")


class Connection:
    """A SQLite connection with a place to die before and after every statement; on a full disk all but reads fail."""

    def __init__(
        self, db: sqlite3.Connection, wal: Path, point: Callable[[], None], has_space: Callable[[], bool]
    ) -> None:
        self._db, self._wal, self._point, self._has_space = db, wal, point, has_space
        self._full = db.execute("PRAGMA synchronous").fetchone()[0] == 2
        self.durable_bytes = self._size()

    def _size(self) -> int:
        return self._wal.stat().st_size if self._wal.exists() else 0

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self._point()
        if not sql.startswith("SELECT"):
            self._demand_space()
        cursor = self._db.execute(sql, *args)
        if (sql == "COMMIT" and self._full) or "wal_checkpoint" in sql:
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
        self.disk_id = ""  # as its identity says, once there is one

    def open(
        self, identity: Identity, machine: StateMachine, point: Callable[[], None], has_space: Callable[[], bool]
    ) -> tuple[LogStore, CheckpointStore]:
        log = LogStore(self.folder / "raft.db")
        self._log_db = Connection(log._db, self.folder / "raft.db-wal", point, has_space)
        log._db = self._log_db  # type: ignore[assignment]  # stands in for the connection
        checkpoint = Checkpoint(self, identity, machine, log.first_index, point, has_space)
        return log, checkpoint

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
        self.folder = left

    def _cut(self, wal: Path, durable_bytes: int) -> None:
        if wal.exists():
            size = wal.stat().st_size
            with wal.open("r+b") as file:
                file.truncate(self._random.randint(min(durable_bytes, size), size))
