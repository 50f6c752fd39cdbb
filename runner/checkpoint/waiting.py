"""What waits for a worker: read by pool and namespace, a bounded number of schedules at a time.

A schedule has one candidate at most for its slot; what waits beside slots is read run by run, those due longest first.
So the work of a look is counted in schedules that have a Pending run, and in runs that go beside; how many stand in line
behind the first, and what waits for pools that nobody serves, does not matter to it.
"""

# ruff: noqa: S608 -- every statement is put together from constants of this package; values are always bound

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from runner.checkpoint.schema import BESIDE, HOLDING, IN_LINE

MAX_SCHEDULES: Final = 1_000
"""Schedules looked at in one look, over all places."""
MAX_PLACES: Final = 200

Place = tuple[str, str]
"""Pool and namespace."""
Served = Mapping[str, frozenset[str] | None]
"""Pools that somebody takes work of, each with the namespaces; None for all of them."""

_NEXT_NAMESPACE: Final = "SELECT MIN(namespace) FROM runs WHERE state = 'Pending' AND pool = ? AND namespace > ?"
_IS_THERE: Final = "SELECT 1 FROM runs WHERE state = 'Pending' AND pool = ? AND namespace = ? LIMIT 1"
_NEXT_SCHEDULE: Final = (
    "SELECT MIN(waits.schedule_id) FROM runs AS waits"
    " WHERE waits.state = 'Pending' AND waits.beside = 0 AND waits.pool = :pool AND waits.namespace = :namespace"
    " AND waits.schedule_id > "
)
_FIRST_IN_LINE: Final = (
    f"SELECT line.run_id FROM runs AS line WHERE line.schedule_id = heads.schedule_id AND {IN_LINE}"
    " AND line.state = 'Pending' ORDER BY line.run_id LIMIT 1"
)
_HEADS: Final = f"""
    WITH RECURSIVE heads (schedule_id) AS (
        {_NEXT_SCHEDULE} :after
        UNION ALL SELECT ({_NEXT_SCHEDULE} heads.schedule_id) FROM heads WHERE heads.schedule_id IS NOT NULL
        LIMIT :limit)
    SELECT heads.schedule_id, runs.run_id, runs.namespace, runs.pool,
        1 + (SELECT COUNT(*) FROM attempts WHERE attempts.run_id = runs.run_id)
    FROM heads JOIN schedules ON schedules.schedule_id = heads.schedule_id
    LEFT JOIN runs ON runs.run_id = COALESCE(schedules.slot_run_id, ({_FIRST_IN_LINE}))
        AND runs.state = 'Pending' AND runs.not_before_ms <= :now_ms
        AND (runs.closing_ms IS NULL OR runs.closing_ms > :now_ms)
        AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.run_id = runs.run_id AND {HOLDING})
        AND (SELECT COUNT(*) FROM runs AS other WHERE other.schedule_id = heads.schedule_id AND {BESIDE})
            < schedules.beside_limit
    WHERE heads.schedule_id IS NOT NULL"""
_ASIDE: Final = f"""
    SELECT runs.run_id, runs.namespace, runs.pool,
        1 + (SELECT COUNT(*) FROM attempts WHERE attempts.run_id = runs.run_id)
    FROM runs
    WHERE runs.state = 'Pending' AND runs.beside = 1 AND runs.pool = :pool AND runs.namespace = :namespace
        AND runs.not_before_ms <= :now_ms AND (runs.closing_ms IS NULL OR runs.closing_ms > :now_ms)
        AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.run_id = runs.run_id AND {HOLDING})
    ORDER BY runs.not_before_ms, runs.run_id LIMIT :limit"""


@dataclass(frozen=True, slots=True)
class Claimable:
    """A run that a claim would be granted for now.

    Attributes:
        attempt: the number that its next attempt gets.
    """

    run_id: str
    namespace: str
    pool: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Where the next look goes on, if this one could not see all.

    Attributes:
        place: the last place of this look; None if it saw every place.
        within: the last schedule seen, of each place that holds more.
    """

    place: Place | None = None
    within: Mapping[Place, str] = field(default_factory=dict)


def claimable(db: sqlite3.Connection, served: Served, now_ms: int, walk: Walk) -> tuple[tuple[Claimable, ...], Walk]:
    """Return candidates of the places served, and where to go on; looks that follow each other see everything.

    Remaining capacity is left to whoever matches: only pools with room should be asked for.
    """
    places, more = _places(db, served, walk.place)
    each = max(MAX_SCHEDULES // max(len(places), 1), 1)
    found: dict[str, Claimable] = {}
    within: dict[Place, str] = {}
    for pool, namespace in places:
        after = walk.within.get((pool, namespace), "")
        values = {"pool": pool, "namespace": namespace, "after": after, "limit": each, "now_ms": now_ms}
        rows = db.execute(_HEADS, values).fetchall()
        found.update((run_id, Claimable(run_id, *rest)) for _, run_id, *rest in rows if run_id is not None)
        found.update((row[0], Claimable(*row)) for row in db.execute(_ASIDE, values))
        if len(rows) == each:
            within[pool, namespace] = rows[-1][0]
    return tuple(found.values()), Walk(places[-1] if more else None, within)


def _places(db: sqlite3.Connection, served: Served, after: Place | None) -> tuple[list[Place], bool]:
    """Return places where something waits, those after the last look's first, and whether there are more."""
    found: list[Place] = []
    for start in (after, None) if after is not None else (None,):
        for place in _places_after(db, served, start):
            if found and place == found[0]:
                return found, False  # all the way round
            if len(found) == MAX_PLACES:
                return found, True
            found.append(place)
    return found, False


def _places_after(db: sqlite3.Connection, served: Served, after: Place | None) -> Iterator[Place]:
    for pool in sorted(served):
        if after is not None and pool < after[0]:
            continue
        latest = after[1] if after is not None and pool == after[0] else ""
        yield from ((pool, namespace) for namespace in _namespaces(db, pool, served[pool], latest))


def _namespaces(db: sqlite3.Connection, pool: str, only: frozenset[str] | None, latest: str) -> Iterator[str]:
    if only is None:
        while (found := db.execute(_NEXT_NAMESPACE, (pool, latest)).fetchone()[0]) is not None:
            yield found
            latest = found
    else:
        for namespace in sorted(only):
            if namespace > latest and db.execute(_IS_THERE, (pool, namespace)).fetchone() is not None:
                yield namespace
