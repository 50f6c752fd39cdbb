"""`fencepost next`: when a cron expression fires and why then, asked of the calendar alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from fencepost.faults import Mistake
from fencepost.nearest import quoted
from runner.calendar import (
    BadExpression,
    Occurrence,
    Timing,
    because,
    check_timing,
    check_trigger,
    next_run,
    occurrences,
)
from runner.calendar.dst import dst_policy
from runner.calendar.exclusions import exclusions_of
from runner.calendar.local_clock import local_text
from runner.calendar.zones import zone
from runner.checkpoint.ops import Cron
from runner.ids import instant_text

Row = dict[str, Any]


def timing(
    expression: str, timezone: str, *, dst_gap: str = "next", dst_fold: str = "first", exclude: Sequence[str] = ()
) -> Timing:
    """Return what the words of the command line mean.

    Raises:
        Mistake: one of them cannot be meant.
    """
    with _as_mistake():
        found = Timing(
            Cron(expression), timezone, policy=dst_policy(dst_gap, dst_fold), exclusions=exclusions_of(tuple(exclude))
        )
        check_trigger(found.trigger, timezone)
    return found


def following(when: Timing, after_ms: int, count: int) -> list[Row]:
    """Return the next instants strictly after one that run, as `{at, local, rule}` (WIRE: JSON forms).

    Raises:
        Mistake: none ever does.
    """
    rows: list[Row] = []
    while len(rows) < count and (found := next_run(when, after_ms)) is not None:
        rows.append(_row(when, found))
        after_ms = found.at_ms
    if not rows:
        with _as_mistake():
            check_timing(when, after_ms)
    return rows


def explained(when: Timing, after_ms: int, count: int) -> list[Row]:
    """Return the next planned instants strictly after one, those too that are skipped: `skipped` and `because` say why."""
    return [
        {**_row(when, found), "skipped": found.skipped, "because": because(when, found)}
        for found in islice(occurrences(when, after_ms), count)
    ]


@contextmanager
def _as_mistake() -> Iterator[None]:
    try:
        yield
    except BadExpression as fault:
        raise Mistake(str(fault)) from fault


def _row(when: Timing, found: Occurrence) -> Row:
    local = local_text(found.at_ms, zone(when.timezone))
    return {"at": instant_text(found.at_ms), "local": local, "rule": found.rule}


def instant_ms(text: str) -> int:
    """Return an ISO 8601 instant in milliseconds since the epoch; UTC unless it says otherwise.

    Raises:
        Mistake: it is no instant, or lies outside the years 1970 to 9000.
    """
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        stated = datetime.fromisoformat(text)
        since = (stated if stated.tzinfo else stated.replace(tzinfo=UTC)) - epoch
    except (ValueError, OverflowError):
        since = None
    if since is None or not 0 <= since.days < 366 * 7_030:
        raise Mistake(f"--after {quoted(text)} is not an instant; right would be 2026-03-29T01:00:00Z")
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
