"""What the owner proposes to forget: a look at some schedules at a time, round and round, never much in one command."""

import sqlite3
from dataclasses import dataclass
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint.expiring import bound_of, expired_runs, expired_skips
from runner.checkpoint.ops import Prune

MAX_LOOKED: Final = 100
"""Schedules in one look, each with a search or two by index."""
MAX_PRUNES: Final = 20
MAX_ROWS: Final = 2_000
"""Rows that one command forgets, give or take a run: some milliseconds of each voter's."""
FIRST_LOOK_S: Final = 30.0
NEXT_LOOK_S: Final = 0.5
NEXT_ROUND_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found.

    Attributes:
        prunes: what to forget now.
        reached: the last schedule looked at; None at the end of the round.
    """

    prunes: tuple[Prune, ...]
    reached: str | None


@dataclass(slots=True)
class Sweep:
    """Where the round stands in this tenure, and when to look next, in served time.

    A round is done a look at a time, so that a million old runs of one schedule hold up neither the other schedules
    nor anything else. A round that found something is followed by the next one at once.
    """

    at_s: float = FIRST_LOOK_S
    after: str = ""
    found: bool = False

    def wanted(self, served_s: float) -> str | None:
        """Return after which schedule to look in this turn, or None for no look."""
        return self.after if served_s >= self.at_s else None

    def take(self, look: Look, served_s: float) -> None:
        """Note what a look found."""
        self.found = self.found or bool(look.prunes)
        ends = look.reached is None
        self.at_s = served_s + (NEXT_ROUND_S if ends and not self.found else NEXT_LOOK_S)
        self.after = look.reached or ""
        if ends:
            self.found = False


def look(db: sqlite3.Connection, after: str, now_ms: int) -> Look:
    """Look at the schedules that come after one, deleted ones too, for what is past its retention."""
    due: list[tuple[str, int]] = []
    reached = None
    for looked, row in enumerate(queries.schedules_after(db, after, MAX_LOOKED), 1):
        bound = bound_of(row, now_ms, now_ms)
        if expired_runs(db, row.schedule_id, bound, 1) or expired_skips(db, row.schedule_id, bound, 1):
            due.append((row.schedule_id, bound.instant_ms))
        if looked == MAX_LOOKED or len(due) == MAX_PRUNES:
            reached = row.schedule_id
            break
    each = MAX_ROWS // max(len(due), 1)
    return Look(tuple(Prune(schedule_id, before_ms, each) for schedule_id, before_ms in due), reached)
