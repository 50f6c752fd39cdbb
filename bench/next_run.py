"""How long the calendar takes to name the next run: usual schedules, rare ones, and the worst that is accepted."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Final

from bench.figures import MS
from bench.table import table
from runner.calendar import Timing, next_run
from runner.calendar.dst import DstPolicy
from runner.calendar.exclusions import exclusions_of
from runner.calendar.expression import parse
from runner.checkpoint.ops import AnyOf, Cron, Every

START_MS: Final = 1_767_225_600_000
STEP_MS: Final = 37 * 3_600_000
ZONE: Final = "Europe/Berlin"


def schedules() -> Iterator[tuple[str, Timing]]:
    """Yield what is asked, each with how it is shown."""
    for text in (
        "* * * * *",
        "0 3 * * *",
        "*/20 * * * * *",
        "0 12 LW * *",
        "0 9 * * 1#2",
        "0 0 29 2 *",
        "0 0 29 2 */7",
    ):
        yield f"`{text}`", Timing(Cron(text), ZONE)
    yield "`30 2 * * *`, skip, last", Timing(Cron("30 2 * * *"), ZONE, policy=DstPolicy("skip", "last"))
    yield "every 30 s", Timing(Every(30), ZONE)
    for text, excluded in (
        ("* * * * * *", "mon-fri 22:00-06:00"),
        ("* * * * * *", "2026-01-01..2040-12-31"),
        ("*/10 * * * * *", "mon-sun 00:00-23:59"),
        ("0 0 29 2 *", "2026-01-01..2100-12-31"),
    ):
        yield f"`{text}` without `{excluded}`", Timing(Cron(text), ZONE, exclusions=exclusions_of((excluded,)))
    yield "`* 2 25-31 3 */7`: never", Timing(Cron("* 2 25-31 3 */7"), ZONE)
    usual = tuple(Cron(f"{minute} 3 * * *") for minute in range(16))
    yield "16 triggers, usual ones", Timing(AnyOf(usual), ZONE)
    rare = tuple(Cron(f"{minute} 0 29 2 */7") for minute in range(16))
    yield "16 triggers, rare ones", Timing(AnyOf(rare), ZONE)
    never = tuple(Cron(f"{minute}-59 2 25-31 3 */7") for minute in range(16))
    yield "16 triggers, none of which ever fires", Timing(AnyOf(never), ZONE)
    yield (
        "`0 0 29 2 *`, all excluded: refused",
        Timing(Cron("0 0 29 2 *"), ZONE, exclusions=exclusions_of(("mon-sun 00:00-23:59",))),
    )


def run(count: int) -> None:
    """Print how long one question takes, asked so many times, 37 hours further each time, and the parse that is kept."""
    rows = []
    for shown, timing in schedules():
        took = [_ms(timing, START_MS + STEP_MS * i) for i in range(count)]
        rows.append((shown, f"{median(took):.3f}", f"{max(took):.3f}", _parse_ms(timing)))
    table(("schedule", "next run: median ms", "worst ms", "first parse ms"), rows)


def _ms(timing: Timing, after_ms: int) -> float:
    began_s = time.perf_counter()
    next_run(timing, after_ms)
    return (time.perf_counter() - began_s) * MS


def _parse_ms(timing: Timing) -> str:
    if not isinstance(timing.trigger, Cron):
        return "-"
    parse.cache_clear()
    began_s = time.perf_counter()
    parse(timing.trigger.expression)
    return f"{(time.perf_counter() - began_s) * MS:.3f}"
