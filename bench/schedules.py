"""What many schedules cost the owner: one pulse with ten of them due, and the first look at all of them at a takeover.

No cluster is around it, as with `retained`: what could grow with the number of schedules is what the owner reads and
reckons. The ratio to the smallest size is what to look at.
"""

import time
import tracemalloc
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

from bench.figures import MS
from bench.retained import Filled
from bench.table import say, table
from cluster.database import open_writer
from runner.agenda import due
from runner.aims import Aims
from runner.checkpoint import ops, queries
from runner.checkpoint.limits import MAX_SCHEDULES
from runner.checkpoint.records import Schedule
from worker.protocol import CommandTarget

SIZES: Final = (1_000, 10_000, 100_000)
DUE: Final = 10
MINUTE_MS: Final = 60_000
KIB: Final = 1024
LIMIT: Final = 500


def run(folder: Path, pulses: int) -> None:
    """Print both for each size."""
    rows: list[tuple[str, ...]] = []
    least = (0.0, 0.0)
    for size in SIZES:
        path = folder / f"schedules-{size}.db"
        with closing(open_writer(path, "NORMAL", create=True)) as db:
            filled = Filled(db)
            filled.own()
            _fill(filled, size)
            takeover_s, kib, aims = _takeover(filled)
            pulse_ms = median(_pulse_ms(filled, aims, n) for n in range(pulses))
        least = least if rows else (takeover_s / size, pulse_ms)
        grows = f"{takeover_s / size / least[0]:.2f}", f"{pulse_ms / least[1]:.2f}"
        shown = f"{size:,}", f"{takeover_s:.2f}", grows[0], f"{pulse_ms:.2f}", grows[1], f"{kib:.2f}"
        rows.append(shown)
    table(
        ("schedules", "takeover s", "per schedule, ratio", f"pulse with {DUE} due, ms", "ratio", "memory KiB each"),
        rows,
    )
    say("\nThe takeover is the work of all its turns; the loop answers callers between them.")


def _fill(filled: Filled, size: int) -> None:
    """Apply schedules of which `DUE` fall due in each minute of the measurement, and the others much later."""
    for first in range(0, size, MAX_SCHEDULES):
        specs = tuple(_spec(n, size) for n in range(first, first + MAX_SCHEDULES))
        filled.commit(ops.Apply(filled.operation(), (), specs))


def _spec(n: int, size: int) -> ops.ScheduleSpec:
    often = n % (size // DUE) == 0
    return ops.ScheduleSpec(
        namespace="many",
        name=f"s{n}",
        schedule_id=f"01900000-0000-7000-8001-{n:012d}",
        trigger=ops.Every(60) if often else ops.Cron(f"{n % 60} {n % 24} {1 + n % 28} {1 + n % 12} *"),
        timezone="Europe/Berlin",
        overlap="skip",
        pool="default",
        on_unknown="hold",
        retry=ops.Retry(),
        target=CommandTarget(argv=("true", str(n))),
    )


def _takeover(filled: Filled) -> tuple[float, float, Aims]:
    """Return how long the work took, how much memory each aim holds, and the aims."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    aims = _aimed(filled)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    began_s = time.perf_counter()
    _aimed(filled)  # untraced
    return time.perf_counter() - began_s, (after - before) / KIB / len(aims.known), aims


def _aimed(filled: Filled) -> Aims:
    aims = Aims()
    aims.line_up(queries.enabled_ids(filled.db))
    while not aims.complete:
        aims.take(_rows(filled, aims.wanted(filled.now_ms)))
    return aims


def _pulse_ms(filled: Filled, aims: Aims, n: int) -> float:
    """Return how long the owner thinks in one pulse, a minute after the one before; the commit does not count."""
    now_ms = filled.now_ms + (n + 1) * MINUTE_MS
    began_s = time.perf_counter()
    rows = _rows(filled, aims.wanted(now_ms))
    found = due(rows, aims.known, now_ms, LIMIT)
    took_ms = (time.perf_counter() - began_s) * MS
    assert len(found) == DUE, len(found)
    for plan in found:
        until = (plan.until_ms, plan.schedule_id)
        filled.db.execute("UPDATE schedules SET watermark_ms = ? WHERE schedule_id = ?", until)
    changed = [plan.schedule_id for plan in found]
    began_s = time.perf_counter()
    aims.forget(changed)
    aims.take(_rows(filled, aims.wanted(now_ms)))
    assert aims.complete
    return took_ms + (time.perf_counter() - began_s) * MS


def _rows(filled: Filled, schedule_ids: tuple[str, ...]) -> list[Schedule]:
    found = (queries.schedule(filled.db, schedule_id) for schedule_id in schedule_ids)
    return [row for row in found if row is not None]
