"""raft.db: the log, the term, the vote and the commit index of one voter, and who it is.

Memory leads the disk only until `sync()`, and nothing that claims durability leaves this process before it:
the replica syncs before it releases acknowledgements, votes and terms. What is retained of the log is mirrored in
memory. Its first row is its start: the last compacted entry, of which index and term must be remembered.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster import log_reading, wal
from cluster.database import open_writer, unusable
from cluster.frames import NO_OP
from cluster.outcome import FailStop
from cluster.ports import Identity
from cluster.unfailing import Unfailing

FORMAT: Final = 1
FILE_NAME: Final = "raft.db"

_SCHEMA: Final = """
CREATE TABLE log (idx INTEGER PRIMARY KEY, term INTEGER NOT NULL, command BLOB NOT NULL);
CREATE TABLE standing (
  one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER NOT NULL, voted_for TEXT, commit_index INTEGER NOT NULL);
CREATE TABLE identity (
  one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, cluster_id TEXT NOT NULL,
  generation INTEGER NOT NULL, name TEXT NOT NULL, disk_id TEXT NOT NULL);
CREATE TABLE member (name TEXT PRIMARY KEY, disk_id TEXT NOT NULL) WITHOUT ROWID;
"""
_INSTALLING: Final = """
CREATE TABLE IF NOT EXISTS installing (
  one INTEGER PRIMARY KEY CHECK (one = 1), idx INTEGER NOT NULL, term INTEGER NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log; the command begins with its kind (`frames.REGULAR`) or is `frames.NO_OP`."""

    command: bytes
    index: int
    term: int


def create(path: Path, identity: Identity) -> None:
    """Write a voter's file at genesis: its identity, term 0, and the library's initial entry.

    Raises:
        Unfit: the file cannot be written.
    """
    db = open_writer(path, "FULL", create=True)
    try:
        db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}")
        db.execute("INSERT INTO log VALUES (1, 0, ?)", (NO_OP,))
        db.execute("INSERT INTO standing VALUES (1, 0, NULL, 1)")
        who = (FORMAT, identity.cluster_id, identity.generation, identity.name, identity.disk_id)
        db.execute("INSERT INTO identity VALUES (1, ?, ?, ?, ?, ?)", who)
        db.executemany("INSERT INTO member VALUES (?, ?)", sorted(identity.members.items()))
        db.execute("COMMIT")
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    finally:
        db.close()


class LogStore:
    """The log and what Raft must never forget."""

    def __init__(self, path: Path) -> None:
        """Read the whole file; what it holds is on disk from then on, whoever wrote it.

        Raises:
            Unfit: it cannot be read or synced, or what it holds cannot be a log.
        """
        wal.sync_leftover(path)
        self._db = open_writer(path, "FULL")
        try:
            self.term, self.voted_for, self.commit_index = log_reading.standing(path, self._db)
            rows = log_reading.entries(path, self._db, self.term, self.commit_index)
            self.entries = [Entry(*row) for row in rows]
        except BaseException:
            self._db.close()
            raise
        self.synced_index = self.last_index
        self._cut_from: int | None = None
        self._compacted = False
        self._unsynced = False
        self._claims_unsynced = False

    @property
    def first_index(self) -> int:
        """Index of the start of the log: committed, applied, and all before it compacted away."""
        return self.entries[0].index

    @property
    def last_index(self) -> int:
        """Index of the last entry."""
        return self.entries[-1].index

    @property
    def last_term(self) -> int:
        """Term of the last entry."""
        return self.entries[-1].term

    @property
    def claims_unsynced(self) -> bool:
        """Whether the term or the vote in memory is not on disk yet: then nothing at all may leave."""
        return self._claims_unsynced

    def entry(self, index: int) -> Entry:
        """Return the entry at an index from `first_index` to `last_index`."""
        return self.entries[self._place(index)]

    def after(self, index: int, limit: int) -> Sequence[Entry]:
        """Return the entries behind an index that the log holds, at most `limit`."""
        place = self._place(index) + 1
        return self.entries[place : place + limit]

    def _place(self, index: int) -> int:
        place = index - self.first_index
        if place < 0:  # a negative place would silently count from the end
            raise FailStop(f"entry {index} is asked for, the log starts at {self.first_index}")
        return place

    def append(self, command: bytes, index: int, term: int) -> None:
        """Add one entry at the end, in memory until `sync()`.

        Raises:
            FailStop: it would leave a gap or let terms fall.
        """
        if index != self.last_index + 1 or term < self.last_term or term > self.term:
            raise FailStop(f"entry {index} of term {term} does not follow {self.last_index} of term {self.last_term}")
        self.entries.append(Entry(command, index, term))
        self._unsynced = True

    def truncate_from(self, index: int) -> None:
        """Drop the entries from an index on, in memory until `sync()`.

        Raises:
            FailStop: one of them is committed.
        """
        if index <= self.commit_index:
            raise FailStop(f"truncating from {index} would drop committed entries (up to {self.commit_index})")
        del self.entries[self._place(index) :]
        if index <= self.synced_index:
            self._cut_from = index if self._cut_from is None else min(self._cut_from, index)
            self.synced_index = index - 1
            self._unsynced = True

    def take(self, fresh: Iterable[Entry], truncate_from: int | None) -> None:
        """Append a leader's entries, after dropping what contradicts them from an index on.

        Raises:
            FailStop: as `truncate_from` and `append`.
        """
        if truncate_from is not None:
            self.truncate_from(truncate_from)
        for entry in fresh:
            self.append(entry.command, entry.index, entry.term)

    def set_term(self, term: int, voted_for: str | None) -> None:
        """Note the term and the vote in it, in memory until `sync()`.

        Raises:
            FailStop: the term goes back, or the one vote of a term would change.
        """
        if term < self.term or (term == self.term and self.voted_for not in {None, voted_for}):
            raise FailStop(f"term {self.term} (vote {self.voted_for}) cannot become {term} (vote {voted_for})")
        if (term, voted_for) != (self.term, self.voted_for):
            self.term, self.voted_for = term, voted_for
            self._unsynced = self._claims_unsynced = True

    def set_commit(self, index: int) -> None:
        """Note how far the log is committed; it reaches the disk with whatever is synced next.

        Raises:
            FailStop: it goes back or beyond the log.
        """
        if not self.commit_index <= index <= self.last_index:
            raise FailStop(f"commit index {self.commit_index} cannot become {index} in a log of {self.last_index}")
        self.commit_index = index

    def compact_to(self, index: int) -> None:
        """Let the log start at an index; the disk follows with whatever is synced next.

        The caller knows that the effects of all entries up to it are on disk in checkpoint.db.

        Raises:
            FailStop: that entry is not committed and synced.
        """
        if index > min(self.commit_index, self.synced_index):
            raise FailStop(f"compacting to {index}, committed is {self.commit_index}, synced {self.synced_index}")
        if index > self.first_index:
            del self.entries[: self._place(index)]
            self._compacted = True

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
            self._db.execute(_INSTALLING)
            self._db.execute("INSERT OR REPLACE INTO installing VALUES (1, ?, ?)", (index, term))
            self._db.execute("COMMIT")

    def noted_install(self) -> tuple[int, int] | None:
        """Return index and term of a snapshot whose installation was not finished, or None."""
        with Unfailing("reading raft.db"):
            there = self._db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'installing'").fetchone()
            row = self._db.execute("SELECT idx, term FROM installing").fetchone() if there else None
        return None if row is None else (int(row[0]), int(row[1]))

    def forget_install(self) -> None:
        """Note on disk that nothing is being installed: checkpoint.db is still the old one."""
        with Unfailing("writing raft.db"):
            self._db.execute("DELETE FROM installing")

    def start_at(self, index: int, term: int) -> None:
        """Fit the log, on disk at once, to a checkpoint of this index: keep what follows if it matches, else nothing.

        Blocks: for one fsync.

        Raises:
            FailStop: the checkpoint is older than the log's start, contradicts what is committed, or the write failed.
        """
        holds = self.first_index <= index <= self.last_index and self.entry(index).term == term
        if index < self.first_index or term > self.term or (not holds and index <= self.commit_index):
            raise FailStop(f"a snapshot of {index}, term {term}, contradicts the log (committed {self.commit_index})")
        kept = self.entries[self._place(index) + 1 :] if holds else []
        self.entries[:] = [Entry(NO_OP, index, term), *kept]
        self.commit_index = max(self.commit_index, index)
        with Unfailing("writing raft.db"):
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM log WHERE idx <= ? OR ?", (index, not holds))
            self._db.execute("INSERT INTO log VALUES (?, ?, ?)", (index, term, NO_OP))
            self._db.execute("DELETE FROM installing")
            self._db.execute("UPDATE standing SET commit_index = ?", (self.commit_index,))
            self._db.execute("COMMIT")
        self.synced_index = self.last_index

    def finish_wal(self) -> None:
        """Empty the WAL, as far as no reader holds it back. Between ticks only."""
        with Unfailing("writing raft.db"):
            wal.finish(self._db)

    def sync(self) -> None:
        """Bring the disk up to memory.

        Blocks: for one fsync, when there is anything to write.

        Raises:
            FailStop: the write failed; memory is ahead of the disk and this process must end.
        """
        if not self._unsynced:
            return
        with Unfailing("writing raft.db"):
            self._db.execute("BEGIN IMMEDIATE")
            if self._cut_from is not None:
                self._db.execute("DELETE FROM log WHERE idx >= ?", (self._cut_from,))
            if self._compacted:
                self._db.execute("DELETE FROM log WHERE idx < ?", (self.first_index,))
            unsynced = self.entries[self._place(self.synced_index) + 1 :]
            fresh = ((entry.index, entry.term, entry.command) for entry in unsynced)
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?)", fresh)
            standing = (self.term, self.voted_for, self.commit_index)
            self._db.execute("UPDATE standing SET term = ?, voted_for = ?, commit_index = ?", standing)
            self._db.execute("COMMIT")
        self.synced_index = self.last_index
        self._cut_from = None
        self._compacted = False
        self._unsynced = self._claims_unsynced = False

    def close(self) -> None:
        """Close the file; what was not synced is gone, as after a crash."""
        self._db.close()
