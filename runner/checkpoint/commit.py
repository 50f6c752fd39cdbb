"""One command being applied: what all its ops share, and the rows they write."""

import sqlite3
from dataclasses import astuple, dataclass, field, fields
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint.records import Attempt, Head

_ATTEMPT_PLACES: Final = ", ".join("?" for _ in fields(Attempt))
_PUT_ATTEMPT: Final = f"INSERT OR REPLACE INTO attempts VALUES ({_ATTEMPT_PLACES})"  # noqa: S608 -- only question marks
_PUT_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

MAX_EVIDENCE_CHARS: Final = 5_000
"""Of one event: more than an attestation or a report may hold."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Who moved something, by which op, and why; written on each event.

    Attributes:
        actor: name of the voter, worker or principal that asked.
        evidence: what it was decided on, in words, where more than the reason is known.
    """

    actor: str
    op: str
    why: str | None = None
    evidence: str | None = None


@dataclass(slots=True)
class Commit:
    """The open command.

    Attributes:
        head: the register's row, with this command's revision and clamped now already in it.
        voter: name of the voter that proposed.
    """

    db: sqlite3.Connection
    head: Head
    voter: str
    _changed: dict[str, None] = field(default_factory=dict)
    _ordinal: int = 0

    @property
    def now_ms(self) -> int:
        """The command's clamped now, milliseconds since the epoch, UTC."""
        return self.head.now_ms

    @property
    def revision(self) -> int:
        """The revision that this command makes; every row it changes carries it."""
        return self.head.revision

    def note(self, key: str) -> None:
        """Name a changed row in the running op's result."""
        self._changed[key] = None

    def take_changed(self) -> tuple[str, ...]:
        """Return the rows changed since the last call, in order."""
        changed = tuple(self._changed)
        self._changed.clear()
        return changed

    def event(
        self,
        cause: Cause,
        *,
        run_id: str | None = None,
        attempt: int | None = None,
        from_state: str | None = None,
        to_state: str | None = None,
    ) -> None:
        """Add one line to the trail."""
        at = (self.revision, self._ordinal, self.now_ms, cause.actor)
        evidence = None if cause.evidence is None else cause.evidence[:MAX_EVIDENCE_CHARS]
        self.db.execute(_PUT_EVENT, (*at, run_id, attempt, cause.op, from_state, to_state, cause.why, evidence))
        self._ordinal += 1

    def put_attempt(self, attempt: Attempt) -> None:
        """Write an attempt's row, whole."""
        values = list(astuple(attempt))
        values[_STATE_AT] = attempt.state.value
        self.db.execute(_PUT_ATTEMPT, values)
        self.note(f"attempt:{attempt.run_id}.{attempt.n}")

    def take_slot(self, schedule_id: str, run_id: str | None) -> None:
        """Give the schedule's overlap slot to a run, or to nobody."""
        self.db.execute(
            "UPDATE schedules SET slot_run_id = ?, revision = ? WHERE schedule_id = ?",
            (run_id, self.revision, schedule_id),
        )
        self.note(f"schedule:{schedule_id}")

    def capacity_free(self, pool: str) -> bool:
        """Return whether the pool has room for one more attempt."""
        found = queries.pool(self.db, pool)
        return found is not None and found.held < found.limit


_STATE_AT: Final = next(at for at, each in enumerate(fields(Attempt)) if each.name == "state")
