"""Which instants a schedule must account for, by arithmetic of our own, and whether each is there exactly once."""

import sqlite3
from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import Any

Row = dict[str, Any]
MINUTE_MS = 60_000


class Instants:
    """Planned instants up to each watermark, by schedule; those seen as runs."""

    def __init__(self) -> None:
        self.planned: dict[str, list[int]] = defaultdict(list)
        self.runs: dict[str, set[int]] = defaultdict(set)
        self.twice: list[str] = []

    def moved(self, before: Row, after: Row) -> None:
        """A watermark moved; what lies between was planned by the definition before."""
        if before["enabled"] and not before.get("deleted_ms"):
            span = (before["watermark_ms"], after["watermark_ms"])
            self.planned[before["schedule_id"]] += list(_between(before, *span))

    def materialised(self, run: Row, floor_ms: int) -> None:
        """A run of a planned instant was made; nothing up to the floor may be, since it may have been forgotten."""
        schedule_id, at_ms = run["schedule_id"], run["scheduled_for_ms"]
        if at_ms in self.runs[schedule_id]:
            self.twice.append(f"{schedule_id} has two runs for {at_ms}")
        if at_ms <= floor_ms:
            self.twice.append(f"{schedule_id} materialises {at_ms}, which lies before what was pruned")
        self.runs[schedule_id].add(at_ms)

    def check(self, db: sqlite3.Connection) -> list[str]:
        """Return what a checkpoint has too much or too little of."""
        found = list(self.twice)
        pruned = _pruned(db)
        for schedule_id, planned in self.planned.items():
            floor_ms = pruned.get(schedule_id) or 0
            wanted = [at_ms for at_ms in planned if at_ms > floor_ms]
            runs = db.execute(
                "SELECT scheduled_for_ms FROM runs WHERE schedule_id = ? AND scheduled_for_ms > ?",
                (schedule_id, floor_ms),
            )
            have = sorted(at_ms for (at_ms,) in runs)
            ranges = db.execute(
                "SELECT first_ms, last_ms, count FROM skips WHERE schedule_id = ? AND last_ms > ?",
                (schedule_id, floor_ms),
            )
            for first_ms, last_ms, count in ranges.fetchall():
                inside = wanted[bisect_left(wanted, first_ms) : bisect_right(wanted, last_ms)]
                whole = (len(inside), *inside[:1], *inside[-1:]) == (count, first_ms, last_ms)
                if not whole and first_ms > floor_ms:
                    found.append(f"{schedule_id} skips {count} from {first_ms} to {last_ms}: {len(inside)} planned")
                have += inside
            have.sort()
            if have != wanted:
                odd = sorted(set(have) ^ set(wanted))[:3] or "one twice"
                found.append(f"{schedule_id}: {len(wanted)} instants planned, {len(have)} on record; not both: {odd}")
        return found


def _between(schedule: Row, after_ms: int, until_ms: int) -> range:
    trigger = schedule["spec"]["trigger"]
    if trigger["type"] == "every":
        step_ms, anchor_ms = trigger["interval_s"] * 1000, schedule["anchor_ms"]
        first = max(1, (after_ms - anchor_ms) // step_ms + 1)
        return range(anchor_ms + first * step_ms, until_ms + 1, step_ms)
    assert trigger["expression"] == "* * * * *", trigger
    return range(after_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS, until_ms + 1, MINUTE_MS)


def _pruned(db: sqlite3.Connection) -> dict[str, int]:
    columns = [row[1] for row in db.execute("PRAGMA table_info(schedules)")]
    if "pruned_before_ms" not in columns:
        return {}
    return dict(db.execute("SELECT schedule_id, pruned_before_ms FROM schedules"))
