"""`fencepost next`: when a cron expression fires, asked of the calendar alone."""

from datetime import UTC, datetime
from typing import Any

from fencepost.faults import Mistake
from fencepost.nearest import quoted
from runner.calendar import BadExpression, check_trigger, next_after
from runner.checkpoint.ops import Cron
from runner.ids import instant_text


def following(expression: str, timezone: str, after_ms: int, count: int) -> list[dict[str, Any]]:
    """Return the next planned instants strictly after one, as `{at, local, rule}` (WIRE: JSON forms).

    Raises:
        Mistake: the expression or the zone cannot be meant.
    """
    trigger = Cron(expression)
    try:
        check_trigger(trigger, timezone)
        rows: list[dict[str, Any]] = []
        while len(rows) < count and (planned := next_after(trigger, timezone, 0, after_ms)) is not None:
            rows.append({"at": instant_text(planned.at_ms), "local": planned.local, "rule": planned.rule})
            after_ms = planned.at_ms
    except BadExpression as fault:
        raise Mistake(str(fault)) from fault
    return rows


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
