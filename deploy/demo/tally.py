"""Count what was planned and what was launched, from arithmetic and the side effects on disk alone.

Imports nothing of the product: it is the outside view. Instants are whole seconds since the Unix epoch, UTC.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

TERMINAL = frozenset({"Succeeded", "Failed", "Cancelled", "Quiesced", "Skipped"})


@dataclass(frozen=True)
class Interval:
    """A schedule that fires every `every_s` seconds; `cron_minute` if it fires on each whole minute instead."""

    name: str
    every_s: int
    cron_minute: bool = False


@dataclass(frozen=True)
class Span:
    """When a request took effect: some moment between these two readings of the wall clock, seconds."""

    before_s: float
    after_s: float


@dataclass
class Tally:
    """The sums that the summary prints, over all schedules."""

    planned: int = 0
    launched: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    still_open: int = 0
    launched_twice: list[str] = field(default_factory=list)
    unaccounted: list[str] = field(default_factory=list)


def seconds(text: str) -> int:
    """Return the instant of `YYYY-MM-DDTHH:MM:SSZ`."""
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def text(instant: int) -> str:
    """Return `YYYY-MM-DDTHH:MM:SSZ` of an instant."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def effects(path: Path) -> dict[str, Counter[tuple[int, str, int]]]:
    """Return how often each (instant, run, attempt) of each schedule left its line on disk."""
    seen: dict[str, Counter[tuple[int, str, int]]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        name, scheduled_for, run_id, attempt = line.split()
        seen.setdefault(name, Counter())[seconds(scheduled_for), run_id, int(attempt)] += 1
    return seen


def planned(schedule: Interval, applied: Span, disabled: Span, witnessed: set[int]) -> set[int]:
    """Return the planned instants of a schedule between its apply and its disable.

    An interval is anchored at the apply instant rounded up to the second and first fires one interval later; a cron
    job fires on whole minutes after the apply. Where the two readings around a request lie in different seconds, an
    instant on that edge counts only if something was seen of it.
    """
    step = 60 if schedule.cron_minute else schedule.every_s
    sure, doubtful = set(), set()
    anchors = {int(-(-moment // 1)) for moment in (applied.before_s, applied.after_s)}
    if schedule.cron_minute:
        firsts = {int(moment // 60) * 60 + 60 for moment in (applied.before_s, applied.after_s)}
    elif len(anchors) == 1 or not witnessed:
        firsts = {max(anchors) + step}
    else:
        firsts = {min(witnessed)}
    for instant in range(min(firsts), int(disabled.after_s) + 1, step):
        certain = instant >= max(firsts) and instant <= disabled.before_s
        (sure if certain else doubtful).add(instant)
    return sure | (doubtful & witnessed)


def skipped_instants(rows: list[dict[str, object]], step: int) -> dict[int, str]:
    """Return each skipped instant with its reason, ranges spelled out."""
    found: dict[int, str] = {}
    for row in rows:
        if row["state"] == "Skipped" and row["scheduled_for"]:
            first = seconds(str(row["scheduled_for"]))
            last = seconds(str(row.get("scheduled_until") or row["scheduled_for"]))
            for instant in range(first, last + 1, step):
                found[instant] = str(row["reason"])
    return found


def open_instants(rows: list[dict[str, object]]) -> set[int]:
    """Return the instants whose run has not come to an end."""
    return {seconds(str(r["scheduled_for"])) for r in rows if r["scheduled_for"] and r["state"] not in TERMINAL}


def count(
    schedules: list[Interval], applied: Span, disabled: Span, log: Path, rows_of: dict[str, list[dict[str, object]]]
) -> Tally:
    """Hold the plan against the side effects, and only what left none against what the product says was skipped."""
    tally, seen = Tally(), effects(log)
    for schedule in schedules:
        lines = seen.get(schedule.name, Counter())
        launched = {instant for instant, _, _ in lines}
        runs_of: dict[int, set[str]] = {}
        for instant, run_id, attempt in lines:
            runs_of.setdefault(instant, set()).add(run_id)
            if lines[instant, run_id, attempt] > 1:
                tally.launched_twice.append(f"{schedule.name} {text(instant)} attempt {attempt}")
        tally.launched_twice += [
            f"{schedule.name} {text(i)} has two runs" for i, ids in runs_of.items() if len(ids) > 1
        ]
        rows = rows_of[schedule.name]
        skips, still_open = (
            skipped_instants(rows, 60 if schedule.cron_minute else schedule.every_s),
            open_instants(rows),
        )
        plan = planned(schedule, applied, disabled, launched | skips.keys() | still_open)
        tally.planned += len(plan)
        tally.launched += len(launched & plan)
        tally.skipped.update(skips[i] for i in plan - launched if i in skips)
        tally.still_open += len((plan & still_open) - launched - skips.keys())
        rest = plan - launched - skips.keys() - still_open
        tally.unaccounted += [f"{schedule.name} {text(i)}" for i in sorted(rest)]
        tally.unaccounted += [
            f"{schedule.name} {text(i)} was launched but never planned" for i in sorted(launched - plan)
        ]
    return tally


def rows_from_json(output: str) -> list[dict[str, object]]:
    """Return the rows that `fencepost runs --json` printed."""
    rows = json.loads(output)
    assert isinstance(rows, list)
    return rows
