"""raft.db: the log, the term, the vote and the commit index of one voter, and who it is.

Memory leads the disk only until `sync()`, and nothing that claims durability leaves this process before it:
the replica syncs before it releases acknowledgements, votes and terms. What is retained of the log is mirrored in
memory. Its first row is its start: the last compacted entry, of which index and term must be remembered.
Each transaction that changes log, term or vote is counted, and told to the side mark (`cluster/side_mark.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from cluster import durable, log_reading, regress, wal
from cluster.database import open_writer
from cluster.flushing import WalFlush
from cluster.frames import CONFIGURE, NO_OP
from cluster.install_note import InstallNote
from cluster.log_mirror import Entry, LogMirror
from cluster.outcome import FailStop
from cluster.regress import Mark
from cluster.side_mark import FILE_NAME as MARK_NAME
from cluster.side_mark import MarkFile, OpenMark, SideMark
from cluster.unfailing import Unfailing


class LogStore(LogMirror, InstallNote):
    """The log and what Raft must never forget.

    Attributes:
        configuring: the entries that name another disk for a voter, oldest first; all that may not be applied yet.
        floor: what this file has lost and no leader has made good yet; until then its voter has no say.
    """

    def __init__(self, path: Path, open_mark: Callable[[Path], MarkFile] = OpenMark) -> None:
        """Read the whole file, and the side mark beside it. Nothing is written before `settle()`.

        Args:
            path: the file.
            open_mark: opens the file of the side mark.

        Raises:
            Unfit: one of them cannot be read, or what it holds cannot be a log.
        """
        self._path = path
        self._db = open_writer(path, "NORMAL")  # a commit reaches the WAL, `flush` makes it durable
        self._wal_flush = WalFlush(path)
        try:
            term, voted_for, self.commit_index, self._syncs = log_reading.standing(path, self._db)
            rows = log_reading.entries(path, self._db, term, self.commit_index)
            self.entries = [Entry(*row) for row in rows]
            name, disk_id = log_reading.owner(path, self._db)
            self._mark = SideMark.open(path.with_name(MARK_NAME), open_mark, disk_id)
        except BaseException:
            self._db.close()
            raise
        told, syncs = self._mark.newest, self._syncs
        claims = regress.claims_at_start(told, syncs=syncs, term=term, voted_for=voted_for, name=name)
        self.term, self.voted_for, self.floor = claims.term, claims.voted_for, claims.floor
        self.configuring = [entry for entry in self.entries if entry.command[:1] == CONFIGURE]
        self.synced_index, self.synced_term = self.last_index, self.term
        self._cut_from: int | None = None
        self._compacted = False
        self._unsynced = self._claims_unsynced = regress.went_back(told, syncs)

    def settle(self) -> None:
        """Make durable what was found: it may be in the page cache only, or be less than there was.

        Blocks: for two fsyncs, or four where the file has gone back.

        Raises:
            FailStop: the disk failed.
        """
        with Unfailing("syncing raft.db"):
            if wal.size(self._path):
                durable.sync_file(self._path.with_name(f"{self._path.name}-wal"))
        if not self._unsynced:
            self._put_mark(durably=True)
            return
        told = self._mark.newest
        with Unfailing("writing the side mark"):
            self._mark.put(replace(told, floor=self.floor), durably=True)
        self._syncs = told.syncs  # only now: until the floor is on disk, a start must find the loss again
        self.sync()

    def append(self, command: bytes, index: int, term: int) -> None:
        """Add one entry at the end, in memory until `sync()`.

        Raises:
            FailStop: it would leave a gap or let terms fall.
        """
        if index != self.last_index + 1 or term < self.last_term or term > self.term:
            raise FailStop(f"entry {index} of term {term} does not follow {self.last_index} of term {self.last_term}")
        self.entries.append(Entry(command, index, term))
        self.configuring += self.entries[-1:] if command[:1] == CONFIGURE else ()
        self._unsynced = True

    def truncate_from(self, index: int) -> None:
        """Drop the entries from an index on, in memory until `sync()`.

        Raises:
            FailStop: one of them is committed.
        """
        if index <= self.commit_index:
            raise FailStop(f"truncating from {index} would drop committed entries (up to {self.commit_index})")
        del self.entries[self._place(index) :]
        self.configuring = [entry for entry in self.configuring if entry.index < index]
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

    def equals(self, leader_term: int, matched: int, committed: int) -> None:
        """Note that a leader's log equals this one up to an index; what was lost may have been made good by it.

        Args:
            leader_term: of the leader.
            matched: the index.
            committed: up to where the leader says, over the current link, that the log is committed.
        """
        if self.floor is None or matched < self.first_index:
            return
        matched_term = self.entry(matched).term
        if regress.made_good(
            self.floor, leader_term=leader_term, matched=matched, matched_term=matched_term, committed=committed
        ):
            self.floor, self._unsynced = None, True

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
        self.configuring = [entry for entry in kept if entry.command[:1] == CONFIGURE]
        self.commit_index = max(self.commit_index, index)
        with Unfailing("writing raft.db"):
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM log WHERE idx <= ? OR ?", (index, not holds))
            self._db.execute("INSERT INTO log VALUES (?, ?, ?)", (index, term, NO_OP))
            self._db.execute("DELETE FROM installing")
            self._commit()
        self.flush()
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
        if self.write():
            self.flush()
            self.flushed()

    def write(self) -> bool:
        """Write what memory has and the file lacks; return whether there was anything, so that a flush is due.

        Raises:
            FailStop: as `sync`.
        """
        if not self._unsynced:
            return False
        with Unfailing("writing raft.db"):
            self._db.execute("BEGIN IMMEDIATE")
            if self._cut_from is not None:
                self._db.execute("DELETE FROM log WHERE idx >= ?", (self._cut_from,))
            if self._compacted:
                self._db.execute("DELETE FROM log WHERE idx < ?", (self.first_index,))
            unsynced = self.entries[self._place(self.synced_index) + 1 :]
            fresh = ((entry.index, entry.term, entry.command) for entry in unsynced)
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?)", fresh)
            self._commit()
        return True

    def flush(self) -> None:
        """Make durable what was written, and then tell the side mark. From any thread, while nothing else is asked.

        Blocks: for one fsync, or two where a term, a vote or the floor changed.

        Raises:
            FailStop: as `sync`; it is never tried again.
        """
        with Unfailing("flushing raft.db"):
            self._wal_flush()
        self._put_mark(durably=self._claims_unsynced or self.floor != self._mark.newest.floor)

    def flushed(self) -> None:
        """Note that memory, unchanged since `write`, is durable now."""
        self.synced_index, self.synced_term = self.last_index, self.term
        self._cut_from = None
        self._compacted = False
        self._unsynced = self._claims_unsynced = False

    def _commit(self) -> None:
        """End a transaction that changes log, term or vote."""
        self._syncs += 1
        standing = (self.term, self.voted_for, self.commit_index, self._syncs)
        self._db.execute("UPDATE standing SET term = ?, voted_for = ?, commit_index = ?, syncs = ?", standing)
        self._db.execute("COMMIT")

    def _put_mark(self, *, durably: bool) -> None:
        with Unfailing("writing the side mark"):
            self._mark.put(Mark(self._syncs, self.term, self.last_index, self.floor), durably=durably)

    def close(self) -> None:
        """Close the files; what was not synced is gone, as after a crash."""
        self._wal_flush.close()
        self._db.close()
        self._mark.close()
