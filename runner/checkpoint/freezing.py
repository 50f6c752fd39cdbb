"""The switch that stops new work in an incident, first thing: reports, fences, cancels and attestations go on."""

import sqlite3
from dataclasses import dataclass, replace
from typing import Final

from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import SetFrozen
from runner.checkpoint.results import OpResult
from runner.checkpoint.schema import OPEN

FROZEN: Final = "frozen"

_OPEN: Final = f"SELECT COUNT(*) FROM attempts WHERE {OPEN}"  # noqa: S608 -- a constant of this package
_NEWEST: Final = "SELECT at_ms, actor FROM events WHERE op = 'freeze' ORDER BY revision DESC, ordinal DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class Freeze:
    """Since when the checkpoint is frozen, milliseconds since the epoch, and by which principal."""

    since_ms: int
    by: str


def set_frozen(commit: Commit, op: SetFrozen) -> OpResult:
    """Freeze or unfreeze: while frozen nothing is materialised, triggered, claimed or permitted.

    Says how many attempts are open: a freeze stops none of them. After an unfreeze the calendar's catch-up policy
    decides about what fell due meanwhile.
    """
    open_attempts = commit.db.execute(_OPEN).fetchone()[0]
    unchanged = commit.head.frozen is op.frozen
    if not unchanged:
        commit.head = replace(commit.head, frozen=op.frozen)
        commit.note("head")
        word = "freeze" if op.frozen else "unfreeze"
        commit.event(Cause(op.operation.principal, word), to_state=FROZEN if op.frozen else "not frozen")
    return OpResult("done", detail={"frozen": op.frozen, "unchanged": unchanged, "open_attempts": open_attempts})


def freeze_of(db: sqlite3.Connection) -> Freeze | None:
    """Return the freeze in force, or None."""
    frozen = db.execute("SELECT frozen FROM head").fetchone()[0]
    found = db.execute(_NEWEST).fetchone() if frozen else None
    return None if found is None else Freeze(*found)
