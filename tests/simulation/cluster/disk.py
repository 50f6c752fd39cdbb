"""A voter's real files, what is recorded of them, and what each way of dying leaves."""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from cluster.checkpoint_store import CheckpointStore
from cluster.flushing import WalFlush
from cluster.log_mirror import Entry
from cluster.log_store import LogStore
from cluster.ports import Identity, StateMachine
from tests.simulation.cluster.mark_file import SimulatedMark
from tests.simulation.cluster.power import Content, Folder, write_out
from tests.simulation.cluster.recording import (
    CHECKPOINT,
    CHECKPOINT_WAL,
    INCOMING,
    MARK,
    RAFT,
    RAFT_WAL,
    WATCHED,
    EntryApplied,
    Event,
    FileSynced,
    FolderSynced,
    History,
    LogWritten,
    Removed,
    Renamed,
    Started,
    StateFound,
    StateWritten,
    Swapped,
    log_view,
    state_of,
    state_view,
)

FILES = (RAFT, RAFT_WAL, MARK, CHECKPOINT, CHECKPOINT_WAL, INCOMING)
WRITES_NOTHING = ("SELECT", "PRAGMA", "ROLLBACK")


class Mortal:
    """A SQLite connection with a place to die before and after every statement; on a full disk all but reads fail."""

    def __init__(self, db: sqlite3.Connection, point: Callable[[], None], has_space: Callable[[], bool]) -> None:
        self._db, self._point, self._has_space = db, point, has_space

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self._point()
        if not sql.startswith("SELECT"):
            self._demand_space()
        cursor = self._run(sql, *args)
        self._point()
        return cursor

    def _run(self, sql: str, *args: Any) -> sqlite3.Cursor:
        return self._db.execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self._point()
        self._demand_space()
        return self._db.executemany(sql, *args)

    def _demand_space(self) -> None:
        if not self._has_space():
            raise sqlite3.OperationalError("database or disk is full")

    def close(self) -> None:
        self._db.close()


class Connection(Mortal):
    """One that tells the disk and the history what each statement means to them."""

    def __init__(
        self,
        db: sqlite3.Connection,
        disk: "Disk",
        name: str,
        point: Callable[[], None],
        has_space: Callable[[], bool],
    ) -> None:
        super().__init__(db, point, has_space)
        self._disk, self._name = disk, name

    def _run(self, sql: str, *args: Any) -> sqlite3.Cursor:
        copies = "wal_checkpoint" in sql
        if copies:
            self._disk.wal_synced(self._name)
        cursor = self._db.execute(sql, *args)
        if copies:
            self._disk.file_synced(self._name)
        elif not self._db.in_transaction and not sql.startswith(WRITES_NOTHING):
            self._committed()
        return cursor

    def _committed(self) -> None:
        voter = self._disk.voter
        written: Event = (
            LogWritten(voter, log_view(self._db)) if self._name == RAFT else StateWritten(voter, state_view(self._db))
        )
        self._disk.files.begun_anew(f"{self._name}-wal")
        self._disk.history.tell(written)


class Flush(WalFlush):
    """The real flush of raft.db's WAL, with a place to die before and after it."""

    def __init__(self, path: Path, disk: "Disk", point: Callable[[], None]) -> None:
        super().__init__(path)
        self._disk, self._point = disk, point

    def __call__(self) -> None:
        self._point()
        super().__call__()
        self._disk.wal_synced(RAFT)
        self._point()


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
        super().__init__(disk.folder / CHECKPOINT, identity, machine, log_start)

    def _open(self) -> None:
        super()._open()
        self._disk.history.tell(StateFound(self._disk.voter, state_view(self._writer)))

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        self._disk.files.named_and_synced(CHECKPOINT)  # if it was made now: its first page and its name
        wrapped = Connection(connection, self._disk, CHECKPOINT, self._point, self._has_space)
        return cast("sqlite3.Connection", wrapped)

    def apply(self, entry: Entry) -> object:
        result = super().apply(entry)
        self._disk.history.tell(EntryApplied(self._disk.voter, entry.index, entry.term, self.digest))
        return result


class Disk:
    """The folder of one voter; every death moves to a copy, as the next life finds it."""

    def __init__(self, home: Path, voter: str, random: Random, history: History) -> None:
        self._home, self._random, self._lives, self._power = home, random, 0, False
        self._left: Content = {}
        self.voter, self.history = voter, history
        self.folder = home / "0"
        self.disk_id = ""  # as its identity says, once there is one

    def open(
        self, identity: Identity, machine: StateMachine, point: Callable[[], None], has_space: Callable[[], bool]
    ) -> tuple[LogStore, CheckpointStore]:
        self._look_for_other_files()
        synced: list[str] = []  # before anybody has looked at what is there
        WATCHED[self.folder] = lambda what, path: synced.append(path.name) if what == "file synced" else None
        path = self.folder / RAFT
        log = LogStore(path, partial(SimulatedMark, point=point, synced=self.file_synced))
        self.history.tell(Started(self.voter, log_view(log._db), self._power))
        WATCHED[self.folder] = self._file_act
        for name in synced:
            self.files.named_and_synced(name)
            self.history.tell(FileSynced(self.voter, name))
        log._db = Connection(log._db, self, RAFT, point, has_space)  # type: ignore[assignment]  # stands in for it
        log._wal_flush = Flush(path, self, point)
        return log, Checkpoint(self, identity, machine, log.first_index, point, has_space)

    def _look_for_other_files(self) -> None:
        """At genesis, on another disk, and where a test has changed files of the dead: what is there is there."""
        there = Folder(self.folder, FILES)
        if there.now() != self._left or self.history.opened.get(self.voter) is not self:
            self.files = there
            self.history.tell(Swapped(self.voter))
        self.history.opened[self.voter] = self

    # ---- what is known to be on disk; tests/processes holds it against the system calls of SQLite

    def wal_synced(self, name: str) -> None:
        """A WAL was synced, and with its first sync its own name."""
        self.files.named_and_synced(f"{name}-wal")
        self.history.tell(FileSynced(self.voter, f"{name}-wal"))

    def file_synced(self, name: str) -> None:
        """A WAL was copied into its file, and that was synced; a WAL that was emptied then was not."""
        self.files.file_synced(name)
        self.history.tell(FileSynced(self.voter, name))

    def _file_act(self, what: str, path: Path) -> None:
        match what:
            case "file synced" | "WAL copied":
                self.file_synced(path.name)
            case "copying a WAL":
                self.wal_synced(path.name)
            case "folder synced":
                self.files.folder_synced()
                self.history.tell(FolderSynced(self.voter))
            case "removed":
                self.files.renamed_or_removed()
                self.history.tell(Removed(self.voter, path.name))
            case _:
                self.files.renamed_or_removed()
                self.history.tell(Renamed(self.voter, state_of(path)))

    # ---- dying

    def die(self, *, power: bool) -> None:
        """Keep the page cache (kill -9), or only what was synced and any part of the rest (power loss)."""
        WATCHED.pop(self.folder)
        self._lives += 1
        self._power = power
        self._left = left = self.files.lost(self._random) if power else self.files.now()
        self.folder = self._home / str(self._lives)
        write_out(left, self.folder)
        self.files.moved_to(self.folder, survived=not power)
