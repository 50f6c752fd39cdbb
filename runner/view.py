"""All that one turn of the loop reads of the checkpoint, in one query."""

import sqlite3
from dataclasses import dataclass
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint.records import Attempt, Head, Pool, Schedule
from runner.claims import Claimable

MAX_CLAIMABLE: Final = 1_000
MAX_CLOSING: Final = 200


@dataclass(frozen=True, slots=True)
class Wants:
    """What a turn has a use for.

    Attributes:
        edited: namespace and name of the schedules that waiting operations edit.
        enabled: whether the ids of all enabled schedules are read.
        schedules: ids of the schedules that are read whole.
        workers: name and incarnation of the workers that may have room; nothing claimable is read without one.
    """

    now_ms: int
    edited: frozenset[tuple[str, str]]
    enabled: bool
    schedules: tuple[str, ...]
    workers: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class View:
    """The checkpoint at one revision; empty where nothing was wanted."""

    head: Head
    edited: dict[tuple[str, str], Schedule]
    enabled: tuple[str, ...]
    schedules: tuple[Schedule, ...]
    attempts: tuple[Attempt, ...]
    claimable: tuple[Claimable, ...]
    pools: dict[str, Pool]
    retired: frozenset[tuple[str, str]]
    closing: tuple[str, ...]


def read(db: sqlite3.Connection, wants: Wants) -> View:
    """Read what one turn wants; everything in it is of the same revision."""
    named = {name: queries.schedule_named(db, *name) for name in sorted(wants.edited)}
    return View(
        head=queries.head(db),
        edited={name: row for name, row in named.items() if row is not None},
        enabled=tuple(queries.enabled_ids(db)) if wants.enabled else (),
        schedules=_schedules(db, wants.schedules),
        attempts=tuple(queries.open_attempts(db)),
        claimable=_claimable(db, wants.now_ms) if wants.workers else (),
        pools={pool.name: pool for pool in queries.pools(db)} if wants.workers else {},
        retired=frozenset(name for name in wants.workers if queries.is_retired(db, *name)),
        closing=tuple(queries.closing(db, wants.now_ms, MAX_CLOSING)),
    )


def _schedules(db: sqlite3.Connection, schedule_ids: tuple[str, ...]) -> tuple[Schedule, ...]:
    rows = (queries.schedule(db, schedule_id) for schedule_id in schedule_ids)
    return tuple(row for row in rows if row is not None)


def _claimable(db: sqlite3.Connection, now_ms: int) -> tuple[Claimable, ...]:
    runs = queries.claimable(db, now_ms, MAX_CLAIMABLE)
    return tuple(Claimable(run, len(queries.attempts(db, run.run_id)) + 1) for run in runs)
