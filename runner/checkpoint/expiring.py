"""What of a schedule is past its retention: the same answer for the owner, who looks, and for apply, which forgets.

Never what may still matter: a run that is open or of which an attempt's end is not known, whatever its age; a manual
run whose key is still taken, since the run is what keeps that key from launching again.
"""

# ruff: noqa: S608 -- every statement is put together from constants of this package; values are always bound

import sqlite3
from dataclasses import dataclass
from typing import Final

from runner.checkpoint.attempt import TERMINAL
from runner.checkpoint.operations import KEPT_MS, minted
from runner.checkpoint.records import Schedule

_SETTLED: Final = ", ".join(f"'{state.value}'" for state in TERMINAL)
_ENDED: Final = (
    "ended_ms <= :ended_ms AND NOT EXISTS"
    f" (SELECT 1 FROM attempts WHERE attempts.run_id = runs.run_id AND attempts.state NOT IN ({_SETTLED}))"
)
_PLANNED: Final = (
    "SELECT run_id, digest FROM runs WHERE schedule_id = :schedule_id AND scheduled_for_ms <= :instant_ms"
    f" AND {_ENDED} ORDER BY scheduled_for_ms LIMIT :limit"
)
# Keys are UUIDv7, whose text begins with their instant: those too old to be taken come first, in order.
_MANUAL: Final = (
    "SELECT run_id, digest, trigger_id FROM runs WHERE schedule_id = :schedule_id AND trigger_id < :oldest_key"
    f" AND triggered_ms <= :instant_ms AND {_ENDED} ORDER BY trigger_id LIMIT :limit"
)
_SKIPS: Final = (
    "SELECT first_ms FROM skips WHERE schedule_id = :schedule_id AND first_ms <= :instant_ms AND last_ms <= :instant_ms"
    " ORDER BY first_ms LIMIT :limit"
)


@dataclass(frozen=True, slots=True)
class Bound:
    """Up to where one look goes.

    Attributes:
        instant_ms: of a run or skip, planned or triggered, inclusive.
        ended_ms: when a run ended, inclusive.
        now_ms: the command's now.
    """

    instant_ms: int
    ended_ms: int
    now_ms: int


def bound_of(row: Schedule, before_ms: int, now_ms: int) -> Bound:
    """Return the bound of a schedule, never closer to now than its retention."""
    kept_from_ms = now_ms - row.spec.retention_s * 1_000
    return Bound(min(before_ms, kept_from_ms), kept_from_ms, now_ms)


def expired_runs(db: sqlite3.Connection, schedule_id: str, bound: Bound, limit: int) -> list[tuple[str, str]]:
    """Return run id and target digest of runs that are past their retention, at most `limit`, oldest first."""
    values = {"schedule_id": schedule_id, "instant_ms": bound.instant_ms, "ended_ms": bound.ended_ms, "limit": limit}
    found = [(run_id, digest) for run_id, digest in db.execute(_PLANNED, values)]
    if len(found) < limit:
        too_old_ms = bound.now_ms - KEPT_MS
        stamp = f"{max(too_old_ms, 0):012x}"
        manual = values | {"limit": limit - len(found), "oldest_key": f"{stamp[:8]}-{stamp[8:]}"}
        rows = db.execute(_MANUAL, manual).fetchall()
        found += [(run, digest) for run, digest, key in rows if minted(key, otherwise_ms=bound.now_ms) < too_old_ms]
    return found


def expired_skips(db: sqlite3.Connection, schedule_id: str, bound: Bound, limit: int) -> list[int]:
    """Return the first instants of skip ranges that lie wholly before the bound, at most `limit`, oldest first."""
    values = {"schedule_id": schedule_id, "instant_ms": bound.instant_ms, "limit": limit}
    return [first_ms for (first_ms,) in db.execute(_SKIPS, values)]
