"""The note in raft.db that checkpoint.db is about to become a snapshot: a start that finds it finishes or forgets."""

import sqlite3
from abc import ABC, abstractmethod

from cluster.outcome import FailStop
from cluster.unfailing import Unfailing


class InstallNote(ABC):
    """What `cluster/log_store.py` does about it, on the connection and the state of that store."""

    _db: sqlite3.Connection
    _unsynced: bool

    @abstractmethod
    def flush(self) -> None:
        """Make durable what was written."""

    def note_install(self, index: int, term: int) -> None:
        """Note on disk that checkpoint.db is about to become a snapshot of this index.

        Blocks: for one fsync.

        Raises:
            FailStop: the write failed, or memory was ahead of the disk.
        """
        if self._unsynced:
            raise FailStop("a snapshot is installed over what is not synced")
        with Unfailing("writing raft.db"):
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT OR REPLACE INTO installing VALUES (1, ?, ?)", (index, term))
            self._db.execute("COMMIT")
        self.flush()

    def noted_install(self) -> tuple[int, int] | None:
        """Return index and term of a snapshot whose installation was not finished, or None."""
        with Unfailing("reading raft.db"):
            row = self._db.execute("SELECT idx, term FROM installing").fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def forget_install(self) -> None:
        """Note on disk that nothing is being installed: checkpoint.db is still the old one."""
        with Unfailing("writing raft.db"):
            self._db.execute("DELETE FROM installing")
        self.flush()
