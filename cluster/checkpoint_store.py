"""checkpoint.db: the state machine's tables, with the applied index and the running digest inside.

Its commits need no fsync (`synchronous=NORMAL`, so a crash leaves a prefix of them): the log holds every applied
entry on disk and applies again what this file lacks. Entries are compacted away only up to `durable_index`, so
a missing file is made again from a log that starts at 1, and from no other.
"""

import hashlib
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from cluster import durable, seats, wal
from cluster.configuration import Roll, decode_change
from cluster.database import open_reader, open_writer, unchanged, unusable
from cluster.digests import EVERY, KEPT, Claim
from cluster.frames import CONFIGURE, NO_OP, RAISE, raised_to
from cluster.log_mirror import Entry
from cluster.outcome import FailStop, Unfit
from cluster.ports import Identity, StateMachine
from cluster.trial import Trial
from cluster.unfailing import Unfailing

T = TypeVar("T")

FORMAT: Final = 5
FILE_NAME: Final = "checkpoint.db"
BASE_VERSION: Final = 1  # of every new cluster
INITIAL_INDEX: Final = 1  # the library's initial entry is applied by definition
_NO_DIGEST: Final = bytes(32)
_packed: Final = msgspec.msgpack.Encoder(order="deterministic")

_SCHEMA: Final = """
CREATE TABLE cluster_applied (
  one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, cluster_version INTEGER NOT NULL,
  cluster_id TEXT NOT NULL, generation INTEGER NOT NULL,
  applied_index INTEGER NOT NULL, applied_term INTEGER NOT NULL, digest BLOB NOT NULL)
"""
_IS_MADE: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'cluster_applied'"
_APPLIED: Final = (
    "SELECT format, cluster_version, cluster_id, generation, applied_index, applied_term, digest FROM cluster_applied"
)


def inspect(path: Path, identity: Identity) -> None:
    """Look at a voter's file before anything in its folder is opened to write; where there is none, see nothing.

    Raises:
        Unfit: it cannot be read, or is of another version of this program, cluster or generation.
    """
    if not path.is_file():
        return
    try:
        with unchanged(path) as db:
            if db.execute(_IS_MADE).fetchone() is not None:
                _check_owner(path, db.execute(_APPLIED).fetchone(), identity)
    except sqlite3.Error as error:
        raise unusable(path, error) from error


def _check_owner(path: Path, row: tuple[Any, ...] | None, identity: Identity) -> tuple[Any, ...]:
    if row is None or row[0] != FORMAT:
        raise Unfit(f"{path}: written by another version of this program; start that version, or move the file away")
    if row[2:4] != (identity.cluster_id, identity.generation):
        raise Unfit(f"{path}: it belongs to another cluster or restore generation; move it away")
    return row


class CheckpointStore:
    """What the committed commands made of the state, up to `applied_index`.

    Attributes:
        applied_index: the last entry applied, committed to this file or not.
        applied_term: the term of that entry.
        digest: sha256 over all applied entries and their results; equal on all voters at equal index.
        durable_index: what this file holds on disk for certain: the applied index at the last finished WAL checkpoint
            of this process.
        cluster_version: what every voter can apply; commands of later versions are not taken yet.
        roll: every disk that this voter knows of, up to the applied index.
        marks: the newest of those digests that every voter keeps, (index, digest), oldest first.
    """

    def __init__(self, path: Path, identity: Identity, machine: StateMachine, log_start: int = INITIAL_INDEX) -> None:
        """Open the file, or make it where there is none and the log can fill it.

        Args:
            path: the file.
            identity: who the disk is.
            machine: what commands mean.
            log_start: the log's first index; what is applied up to there cannot be applied again.

        Raises:
            Unfit: it cannot be used, belongs to another cluster, was written by another version, or is missing or
                older than the log's start.
        """
        self._machine, self._path, self._identity = machine, path, identity
        self._log_start = log_start
        self._begun = False
        self.cluster_version, self.roll = BASE_VERSION, Roll()
        self.marks: deque[Claim] = deque(maxlen=KEPT)
        if log_start > INITIAL_INDEX and not path.is_file():
            raise self._too_old("it is missing")
        self._open()

    def _open(self) -> None:
        self._writer = self._connect()
        try:
            self.applied_index, self.applied_term, self.digest = self._load(self._path, self._identity)
            self._reader = open_reader(self._path)
        except BaseException:
            self._writer.close()
            raise
        self.durable_index = INITIAL_INDEX
        self.marks.clear()  # of a state that is not the one in this file

    def _connect(self) -> sqlite3.Connection:
        return open_writer(self._path, "NORMAL", create=self._log_start == INITIAL_INDEX)

    def _too_old(self, what: str) -> Unfit:
        return Unfit(
            f"{self._path}: {what}, and the log in raft.db before entry {self._log_start} is compacted away, so it"
            " cannot be made again; replace this voter's disk"
        )

    def _load(self, path: Path, identity: Identity) -> tuple[int, int, bytes]:
        try:
            if self._writer.execute(_IS_MADE).fetchone() is None:
                if self._log_start > INITIAL_INDEX:
                    raise self._too_old("it is empty")
                self._create(identity)
            row = _check_owner(path, self._writer.execute(_APPLIED).fetchone(), identity)
        except sqlite3.Error as error:
            raise unusable(path, error) from error
        self.cluster_version = int(row[1])
        if self.cluster_version > self._machine.version:
            raise Unfit(
                f"{path}: the cluster has gone on to version {self.cluster_version}, this program knows"
                f" {self._machine.version}; start a later version of it"
            )
        if row[4] < self._log_start:
            raise self._too_old(f"it ends at entry {row[4]}")
        self.roll = seats.read_roll(self._writer, identity)
        return int(row[4]), int(row[5]), bytes(row[6])

    def _create(self, identity: Identity) -> None:
        """Make everything in one transaction: a crash leaves an empty file, which the next start fills."""
        self._writer.execute("BEGIN IMMEDIATE")
        self._writer.execute(_SCHEMA)
        self._writer.execute(seats.SCHEMA)
        self._machine.create(self._writer)
        row = (FORMAT, BASE_VERSION, identity.cluster_id, identity.generation, INITIAL_INDEX, _NO_DIGEST)
        self._writer.execute("INSERT INTO cluster_applied VALUES (1, ?, ?, ?, ?, ?, 0, ?)", row)
        self._writer.execute("COMMIT")

    def apply(self, entry: Entry) -> object:
        """Apply the next entry, inside the transaction that `commit()` ends; return the machine's result.

        Raises:
            FailStop: the entry is not the next one, or the machine raised, which it promised not to.
        """
        if entry.index != self.applied_index + 1:
            raise FailStop(f"entry {entry.index} cannot be applied after {self.applied_index}")
        with Unfailing(f"applying entry {entry.index}"):
            if not self._begun:
                self._writer.execute("BEGIN IMMEDIATE")
                self._begun = True
            result = self._make_of(entry.command, entry.index)
            step = _packed.encode((self.digest, entry.index, entry.term, entry.command, result))
            self.digest = hashlib.sha256(step).digest()
        self.applied_index, self.applied_term = entry.index, entry.term
        if entry.index % EVERY == 0:
            self.marks.append((entry.index, self.digest))
        return result

    def _make_of(self, command: bytes, index: int) -> object:
        if command == NO_OP:
            return None
        if command[:1] == RAISE:
            return self._raise_to(raised_to(command))
        if command[:1] == CONFIGURE:
            change = decode_change(command[len(CONFIGURE) :])
            seats.note_change(self._writer, index, change)
            self.roll = self.roll.after(index, change)
            return [change.name, change.disk_id]
        return self._machine.apply(self._writer, command[1:])

    def _raise_to(self, version: int) -> int:
        if version > self._machine.version:
            raise FailStop(f"the cluster goes on to version {version}, this program knows {self._machine.version}")
        self.cluster_version = max(self.cluster_version, version)
        self._writer.execute("UPDATE cluster_applied SET cluster_version = ?", (self.cluster_version,))
        return self.cluster_version

    def commit(self) -> None:
        """Commit what was applied since the last commit, the applied index and digest with it.

        Raises:
            FailStop: the commit failed.
        """
        if not self._begun:
            return
        with Unfailing("writing checkpoint.db"):
            self._writer.execute(
                "UPDATE cluster_applied SET applied_index = ?, applied_term = ?, digest = ?",
                (self.applied_index, self.applied_term, self.digest),
            )
            self._writer.execute("COMMIT")
        self._begun = False

    @property
    def supported_version(self) -> int:
        """The highest cluster version that this program can apply."""
        return self._machine.version

    def claims(self) -> tuple[Claim, ...]:
        """Return what the state was at each mark, and what it is now: (index, digest)."""
        return (*self.marks, (self.applied_index, self.digest))

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Lend the state as applied so far, committed or not, to try commands on; everything is taken back."""
        self._writer.execute("SAVEPOINT trial" if self._begun else "BEGIN IMMEDIATE")
        yield Trial(self._writer, self._machine)  # whatever escapes is FailStop: nothing is left to tidy up for
        if self._begun:
            self._writer.execute("ROLLBACK TO trial")
            self._writer.execute("RELEASE trial")
        else:
            self._writer.execute("ROLLBACK")

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on committed state, in one snapshot; it cannot write."""
        self._reader.execute("BEGIN")
        try:
            return query(self._reader)
        finally:
            if self._reader.in_transaction:  # a failing disk may have ended it already
                self._reader.execute("ROLLBACK")

    def finish_wal(self) -> bool:
        """Empty the WAL as far as readers allow, and learn how far the file is durable. Between ticks only.

        Returns:
            Whether the WAL is empty.

        Raises:
            FailStop: the disk failed.
        """
        with Unfailing("writing checkpoint.db"):
            complete, emptied = wal.finish(self._writer)
        if complete:
            self.durable_index = self.applied_index
        return emptied

    def give_way(self) -> None:
        """Close the file and remove its empty WAL, so that another one may take its name.

        A WAL that stayed would be read as the other file's own. `reopen()` follows.
        """
        self.close()
        with Unfailing("removing the WAL of checkpoint.db"):
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            durable.sync_folder(self._path.parent)

    def reopen(self) -> None:
        """Open whatever has the file's name now."""
        with Unfailing("opening checkpoint.db again"):
            self._open()
        self.durable_index = self.applied_index

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    def close(self) -> None:
        """Close the file; what was not committed is gone, and will be applied again."""
        self._reader.close()
        self._writer.close()
