"""All that one turn of the loop reads of the checkpoint, in one query."""

import sqlite3
from dataclasses import dataclass
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint.records import Attempt, Head, Pool, Schedule
from runner.checkpoint.waiting import Claimable, Walk, claimable
from runner.claims import served
from runner.contacts import Contact
from runner.retention import Look, look

MAX_CLOSING: Final = 200


@dataclass(frozen=True, slots=True)
class Wants:
    """What a turn has a use for.

    Attributes:
        edited: namespace and name of the schedules that waiting operations edit.
        enabled: whether the ids of all enabled schedules are read.
        schedules: ids of the schedules that are read whole.
        roomy: the newest polls of the workers that may have room; nothing claimable is read without one.
        walk: where the look at what is claimable goes on.
        retention_after: after which schedule to look for what is past its retention; None for no look.
    """

    now_ms: int
    edited: frozenset[tuple[str, str]]
    enabled: bool
    schedules: tuple[str, ...]
    roomy: tuple[Contact, ...]
    walk: Walk
    retention_after: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The checkpoint at one revision; empty where nothing was wanted."""

    head: Head
    edited: dict[tuple[str, str], Schedule]
    enabled: tuple[str, ...]
    schedules: tuple[Schedule, ...]
    attempts: tuple[Attempt, ...]
    claimable: tuple[Claimable, ...]
    walk: Walk
    pools: dict[str, Pool]
    retired: frozenset[tuple[str, str]]
    closing: tuple[str, ...]
    expired: Look | None


def read(db: sqlite3.Connection, wants: Wants) -> View:
    """Read what one turn wants; everything in it is of the same revision."""
    named = {name: queries.schedule_named(db, *name) for name in sorted(wants.edited)}
    pools = {pool.name: pool for pool in queries.pools(db)} if wants.roomy else {}
    found, walk = claimable(db, served(wants.roomy, pools), wants.now_ms, wants.walk) if pools else ((), wants.walk)
    lives = frozenset((contact.worker, contact.incarnation) for contact in wants.roomy)
    return View(
        head=queries.head(db),
        edited={name: row for name, row in named.items() if row is not None},
        enabled=tuple(queries.enabled_ids(db)) if wants.enabled else (),
        schedules=_schedules(db, wants.schedules),
        attempts=tuple(queries.open_attempts(db)),
        claimable=found,
        walk=walk,
        pools=pools,
        retired=frozenset(life for life in lives if queries.is_retired(db, *life)),
        closing=tuple(queries.closing(db, wants.now_ms, MAX_CLOSING)),
        expired=None if wants.retention_after is None else look(db, wants.retention_after, wants.now_ms),
    )


def _schedules(db: sqlite3.Connection, schedule_ids: tuple[str, ...]) -> tuple[Schedule, ...]:
    rows = (queries.schedule(db, schedule_id) for schedule_id in schedule_ids)
    return tuple(row for row in rows if row is not None)
