"""What a human may attest, as the rows say; reads only, in a fixed order."""

import sqlite3
from collections.abc import Iterator
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint.records import Attempt
from runner.checkpoint.schema import ATTESTABLE, OPEN

_OF_ONE: Final = f"{ATTESTABLE} AND worker = ? AND incarnation = ? ORDER BY run_id, n LIMIT ?"
_AFTER: Final = (
    f"{ATTESTABLE} AND (worker, incarnation, run_id, n) > (?, ?, ?, ?) ORDER BY worker, incarnation, run_id, n"
)
_AWAITED: Final = (
    f"SELECT COUNT(*) FROM attempts WHERE {OPEN} AND worker = ? AND incarnation = ?"  # noqa: S608 -- constants of this package
    " AND state != 'Claimed' AND unresolved = 0"
)


Place = tuple[str, str, str, int]
"""Worker, incarnation, run and attempt: where a listing goes on."""
FIRST: Final[Place] = ("", "", "", 0)


def attestable(db: sqlite3.Connection, worker: str, incarnation: str, limit: int) -> list[Attempt]:
    """Return what a human may attest of one incarnation, superseded attempts too; by run and attempt."""
    return list(queries.attempts_where(db, _OF_ONE, (worker, incarnation, limit)))


def each_attestable(db: sqlite3.Connection, after: Place = FIRST) -> Iterator[Attempt]:
    """Yield what a human may attest, by worker and incarnation, then by run and attempt; read as it is taken."""
    return queries.attempts_where(db, _AFTER, after)


def awaited(db: sqlite3.Connection, worker: str, incarnation: str) -> int:
    """Return of how many attempts of an incarnation the end is still awaited: permitted, neither ended nor given up."""
    count: int = db.execute(_AWAITED, (worker, incarnation)).fetchone()[0]
    return count


def last_moved_ms(db: sqlite3.Connection, attempt: Attempt) -> int | None:
    """Return when an attempt's state last changed, milliseconds since the epoch; None if its trail is gone."""
    newest = "SELECT MAX(at_ms) FROM events WHERE run_id = ? AND attempt = ?"
    at_ms: int | None = db.execute(newest, (attempt.run_id, attempt.n)).fetchone()[0]
    return at_ms
