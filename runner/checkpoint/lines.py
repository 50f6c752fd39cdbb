"""Who of a schedule's runs waits in line for its slot, and who is open beside it; every read is by index."""

# ruff: noqa: S608 -- every statement is put together from constants of this package; values are always bound

import sqlite3

from runner.checkpoint.schema import BESIDE, IN_LINE


def line(db: sqlite3.Connection, schedule_id: str) -> list[str]:
    """Return the Pending runs of a schedule that have its slot or wait for it, oldest first."""
    pending = f"SELECT run_id FROM runs WHERE schedule_id = ? AND {IN_LINE} AND state = 'Pending' ORDER BY run_id"
    return [row[0] for row in db.execute(pending, (schedule_id,))]


def count_in_line(db: sqlite3.Connection, schedule_id: str, most: int) -> int:
    """Return how many runs of a schedule wait in line behind the run with its slot, counted up to `most`."""
    waits = (
        "SELECT 1 FROM runs JOIN schedules USING (schedule_id)"
        f" WHERE runs.schedule_id = ? AND {IN_LINE} AND runs.state = 'Pending'"
        " AND runs.run_id IS NOT schedules.slot_run_id LIMIT ?"
    )
    count: int = db.execute(f"SELECT COUNT(*) FROM ({waits})", (schedule_id, most)).fetchone()[0]
    return count


def open_beside(db: sqlite3.Connection, schedule_id: str) -> list[str]:
    """Return the open runs beside a schedule's slot that overlap counts, oldest first."""
    found = f"SELECT run_id FROM runs WHERE schedule_id = ? AND {BESIDE} ORDER BY run_id"
    return [row[0] for row in db.execute(found, (schedule_id,))]


def count_beside(db: sqlite3.Connection, schedule_id: str) -> int:
    """Return how many open runs beside a schedule's slot overlap counts."""
    counted = f"SELECT COUNT(*) FROM runs WHERE schedule_id = ? AND {BESIDE}"
    count: int = db.execute(counted, (schedule_id,)).fetchone()[0]
    return count
