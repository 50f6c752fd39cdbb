"""The worker's durable memory of attempts: one SQLite file, synced before anything that builds on it happens.

A restart can never turn a consumed reservation back into permission: rows only move along `ledger_row.MOVES`.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from worker.capability import MINT, LaunchCapability
from worker.fault import LedgerBroken, Unfit
from worker.incarnation import draw_id
from worker.ledger_row import Command, Consume, Decision, Denied, Fence, LedgerRow, RowState, step
from worker.lineage import Lineage
from worker.ports import Clock, Randomness

FORMAT: Final = 2
Key = tuple[str, int]

_SCHEMA: Final = (
    "CREATE TABLE ledger (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE attempt (
        run_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        state TEXT NOT NULL,          -- as in body, for a person with a SQLite shell
        answered_ms INTEGER,          -- as in body, for the index
        body TEXT NOT NULL,           -- LedgerRow as JSON
        PRIMARY KEY (run_id, attempt)
    ) WITHOUT ROWID""",
    "CREATE INDEX unanswered ON attempt (run_id, attempt) WHERE answered_ms IS NULL",
    "CREATE INDEX answered ON attempt (answered_ms) WHERE answered_ms IS NOT NULL",
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LedgerRow)


class Ledger:
    """Rows of attempts in `data_dir/ledger.db`, guarded by a lock on `data_dir/lock`.

    Every method is synchronous and returns only after its change is on disk. A write that fails raises LedgerBroken.

    Attributes:
        id: identity of this file, 32 hex digits drawn when it was made.
        worker: the worker that it belongs to.
        life: how often this file was opened to work with, this time included: orders the lives of one ledger.
        lineage: the cluster that it belongs to and the highest generation it heard of.
    """

    def __init__(self, db: sqlite3.Connection, lock: int, clock: Clock, *, worker: str, born: "_Born") -> None:
        self.id = born.ledger_id
        self.worker = worker
        self.life = born.life
        self.lineage = born.lineage
        self._db = db
        self._lock = lock
        self._clock = clock

    @classmethod
    def open(cls, data_dir: Path, *, worker: str, clock: Clock, randomness: Randomness) -> Self:
        """Open the ledger of a data directory, or make it.

        Raises:
            Unfit: the directory cannot be used, another process uses it, or the ledger is another worker's, of a
                newer format, or not a ledger; nothing in it was changed.
        """
        lock = _lock(data_dir)
        try:
            return cls._open(data_dir, lock, worker, clock, randomness)
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def _open(cls, data_dir: Path, lock: int, worker: str, clock: Clock, randomness: Randomness) -> Self:
        path = data_dir / "ledger.db"
        try:
            _inspect(path, worker)
            _make_private(path)
            db = sqlite3.connect(path, isolation_level=None)
            try:
                born = _prepare(db, worker, randomness)
                _sync_folder(data_dir)
            except BaseException:
                db.close()
                raise
        except (sqlite3.Error, OSError) as fault:
            raise Unfit(f"{path} cannot be used as a ledger ({fault}): repair it or give another data_dir") from fault
        return cls(db, lock, clock, worker=worker, born=born)

    def close(self) -> None:
        """Close the file and let go of the lock. Idempotent."""
        self._db.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def row(self, run_id: str, attempt: int) -> LedgerRow | None:
        """Return one row, or None: then nothing can be told of that attempt."""
        query = "SELECT body FROM attempt WHERE run_id = ? AND attempt = ?"
        found = self._read(query, (run_id, attempt))
        return found[0] if found else None

    def unanswered(self) -> list[LedgerRow]:
        """Return the rows whose last report was not finally answered, by run and attempt (run ids grow with time)."""
        return self._read("SELECT body FROM attempt WHERE answered_ms IS NULL ORDER BY run_id, attempt", ())

    def step(self, run_id: str, attempt: int, command: Command) -> Decision:
        """Decide one command against one row and make the result durable."""
        return self.steps([((run_id, attempt), command)])[0]

    def steps(self, commands: Iterable[tuple[Key, Command]]) -> list[Decision]:
        """Decide several commands in order and make all results durable in one commit."""
        now_ms = self._clock.wall_ms()
        decisions: list[Decision] = []
        with self._transaction():
            for (run_id, attempt), command in commands:
                before = self.row(run_id, attempt)
                after, decision = step(before, command, now_ms=now_ms)
                decisions.append(decision)
                if after is not None and after != before:
                    self._store(run_id, attempt, after)
        return decisions

    def consume(self, run_id: str, attempt: int, command: Consume) -> LaunchCapability | Denied:
        """Durably use up the launch permission of a reserved row; the only place that makes a capability."""
        decision = self.step(run_id, attempt, command)
        if isinstance(decision, Denied):
            return decision
        return LaunchCapability(run_id, attempt, command.token, mint=MINT)

    def adopt(self, lineage: Lineage, why: str) -> list[Key]:
        """Keep a lineage, and fence what earlier generations reserved and never consumed, in one commit.

        Returns:
            The attempts that were fenced.
        """
        now_ms = self._clock.wall_ms()
        fenced: list[Key] = []
        with self._transaction():
            kept = [(lineage.cluster_id, "cluster_id"), (str(lineage.generation), "generation")]
            self._db.executemany("UPDATE ledger SET value = ? WHERE name = ?", kept)
            for row in self.unanswered():
                if row.state is RowState.RESERVED and row.binding.generation < lineage.generation:
                    after, _ = step(row, Fence(why), now_ms=now_ms)
                    assert after is not None, "a reserved row can be fenced"
                    fenced.append((row.binding.run_id, row.binding.attempt))
                    self._store(*fenced[-1], after)
        self.lineage = lineage
        return fenced

    def settled(self, *, before_ms: int, limit: int) -> list[LedgerRow]:
        """Return at most `limit` rows that were finally answered, or last asked about, before an instant; oldest first."""
        query = "SELECT body FROM attempt WHERE answered_ms < ? ORDER BY answered_ms, run_id, attempt LIMIT ?"
        return self._read(query, (before_ms, limit))

    def forget(self, keys: Iterable[Key]) -> None:
        """Delete rows that were finally answered; a row that still has something to say stays."""
        with self._transaction():
            self._db.executemany(
                "DELETE FROM attempt WHERE run_id = ? AND attempt = ? AND answered_ms IS NOT NULL", list(keys)
            )

    def _store(self, run_id: str, attempt: int, row: LedgerRow) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO attempt (run_id, attempt, state, answered_ms, body) VALUES (?, ?, ?, ?, ?)",
            (run_id, attempt, row.state.value, row.answered_ms, _encoder.encode(row).decode()),
        )

    def _read(self, query: str, values: tuple[object, ...]) -> list[LedgerRow]:
        try:
            return [_decoder.decode(body) for (body,) in self._db.execute(query, values)]
        except (sqlite3.Error, msgspec.MsgspecError) as fault:
            raise LedgerBroken(f"the ledger cannot be read: {fault}") from fault

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as fault:
            raise LedgerBroken(f"a write to the ledger failed: {fault}") from fault


def _lock(data_dir: Path) -> int:
    """Take the lock of a data directory, which is made (mode 0700) if only it is missing, not its parent."""
    try:
        data_dir.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise Unfit(f"data_dir {data_dir} cannot be used: {fault.strerror}") from fault
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        os.close(lock)
        raise Unfit(f"data_dir {data_dir} is in use by another process: stop that one first") from fault
    return lock


def _make_private(path: Path) -> None:
    """Let only the owner read the ledger's files; what SQLite makes beside the first takes over that one's mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with suppress(FileNotFoundError):
            each.chmod(0o600)


def _inspect(path: Path, worker: str) -> None:
    """Look, through a connection that cannot write, before anything is changed.

    This process holds the lock of the folder, so that SQLite's own and its index of the WAL, a file too, can be left
    away: a crash may have left a WAL, and who only looks must not fold it in.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    wal = path.with_name(path.name + "-wal")
    how = "vfs=unix-none" if wal.exists() and wal.stat().st_size > 0 else "immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&{how}", uri=True)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise Unfit(f"{path} has format {version} and this program knows {FORMAT}: use the newer program")
        if version == 0:
            if db.execute("SELECT 1 FROM sqlite_schema").fetchone():
                raise Unfit(f"{path} is not a ledger: give another data_dir")
            return  # its making was cut off before anything was in it
        (owner,) = db.execute("SELECT value FROM ledger WHERE name = 'worker'").fetchone()
        if owner != worker:
            raise Unfit(f"{path} is the ledger of worker {owner!r}, not of {worker!r}: give each its own data_dir")


@dataclass(frozen=True, slots=True)
class _Born:
    """What an opened file says of itself."""

    ledger_id: str
    life: int
    lineage: Lineage


def _prepare(db: sqlite3.Connection, worker: str, randomness: Randomness) -> _Born:
    """Set the connection to sync every commit, and make the tables if there are none."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM sqlite_schema").fetchone():
        for statement in _SCHEMA:
            db.execute(statement)
        born = [("id", draw_id(randomness)), ("worker", worker), ("life", "0")]
        db.executemany("INSERT INTO ledger (name, value) VALUES (?, ?)", born)
    if db.execute("PRAGMA user_version").fetchone()[0] < FORMAT:
        # Format 1 kept its lineage only in its rows.
        for name in ("cluster_id", "generation"):
            seen = "SELECT ?1, COALESCE(MAX(json_extract(body, '$.binding.' || ?1)), ?2) FROM attempt"
            db.execute(f"INSERT INTO ledger {seen}", (name, "" if name == "cluster_id" else "0"))
        db.execute(f"PRAGMA user_version = {FORMAT}")
    db.execute("UPDATE ledger SET value = CAST(value AS INTEGER) + 1 WHERE name = 'life'")
    said = dict(db.execute("SELECT name, value FROM ledger").fetchall())
    db.execute("COMMIT")
    return _Born(said["id"], int(said["life"]), Lineage(said["cluster_id"], int(said["generation"])))


def _sync_folder(folder: Path) -> None:
    """Make the new file's name durable, and the folder's own, in case it was just made."""
    for place in (folder, folder.parent):
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
