"""`fencepost next`: when a cron expression fires and why then, asked of the calendar alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from msgspec import to_builtins

from fencepost.faults import Mistake
from fencepost.nearest import quoted
from runner.calendar import BadExpression, Timing, check_timing, check_trigger
from runner.calendar.dst import dst_policy
from runner.calendar.exclusions import exclusions_of
from runner.checkpoint.ops import Cron
from runner.management import foreseeing

Row = dict[str, Any]


def is_schedule(what: str) -> bool:
    """Return whether `next` is asked about a schedule, `NS/NAME`, and not about a cron expression."""
    return "/" in what and not what.startswith("@") and len(what.split()) == 1


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
    rows: list[Row] = [to_builtins(form) for form in islice(foreseeing.following(when, after_ms), count)]
    if not rows:
        with _as_mistake():
            check_timing(when, after_ms)
    return rows


def explained(when: Timing, after_ms: int, count: int) -> list[Row]:
    """Return the next planned instants strictly after one, those too that are skipped: `skipped` and `because` say why."""
    return [to_builtins(form) for form in islice(foreseeing.explained(when, after_ms), count)]


@contextmanager
def _as_mistake() -> Iterator[None]:
    try:
        yield
    except BadExpression as fault:
        raise Mistake(str(fault)) from fault


def instant_ms(text: str, option: str) -> int:
    """Return an ISO 8601 instant in milliseconds since the epoch; UTC unless it says otherwise.

    Args:
        option: where it was given.

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
        raise Mistake(f"{option} {quoted(text)} is not an instant; right would be 2026-03-29T01:00:00Z")
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
