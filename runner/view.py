"""All that one turn of the loop reads of the checkpoint, in one query."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint.records import Attempt, Head, Pool, Schedule
from runner.checkpoint.waiting import Claimable, Walk, claimable
from runner.claims import Room, rooms, served
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
        roomy: the newest polls of the workers that may have room; nothing claimable is read unless one has.
        served_s: the owner's served time.
        poll_s: how often workers poll.
        walk: where the look at what is claimable goes on.
        retention_after: after which schedule to look for what is past its retention; None for no look.
    """

    now_ms: int
    edited: frozenset[tuple[str, str]]
    enabled: bool
    schedules: tuple[str, ...]
    roomy: tuple[Contact, ...]
    served_s: float
    poll_s: float
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
    room: tuple[Room, ...]
    closing: tuple[str, ...]
    expired: Look | None


def read(db: sqlite3.Connection, wants: Wants) -> View:
    """Read what one turn wants; everything in it is of the same revision."""
    head, attempts = queries.head(db), tuple(queries.open_attempts(db))
    room = () if head.frozen else _room(db, wants, attempts)
    pools = {pool.name: pool for pool in queries.pools(db)} if room else {}
    serves = served((each.contact for each in room), pools)
    found, walk = claimable(db, serves, wants.now_ms, wants.walk) if serves else ((), wants.walk)
    named = {name: queries.schedule_named(db, *name) for name in sorted(wants.edited)}
    return View(
        head=head,
        edited={name: row for name, row in named.items() if row is not None},
        enabled=tuple(queries.enabled_ids(db)) if wants.enabled else (),
        schedules=_schedules(db, wants.schedules),
        attempts=attempts,
        claimable=found,
        walk=walk,
        pools=pools,
        room=room,
        closing=tuple(queries.closing(db, wants.now_ms, MAX_CLOSING)),
        expired=None if wants.retention_after is None else look(db, wants.retention_after, wants.now_ms),
    )


def _room(db: sqlite3.Connection, wants: Wants, attempts: Sequence[Attempt]) -> tuple[Room, ...]:
    lives = {(contact.worker, contact.incarnation) for contact in wants.roomy}
    retired = {life for life in lives if queries.is_retired(db, *life)}
    return tuple(rooms(wants.roomy, attempts, retired, served_s=wants.served_s, poll_s=wants.poll_s))


def _schedules(db: sqlite3.Connection, schedule_ids: tuple[str, ...]) -> tuple[Schedule, ...]:
    rows = (queries.schedule(db, schedule_id) for schedule_id in schedule_ids)
    return tuple(row for row in rows if row is not None)
