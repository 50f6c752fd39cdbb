"""The kinds of trigger behind one door: check one, and name its next instant."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from runner.calendar.expression import BadExpression, parse
from runner.calendar.instants import LAST_S, instants
from runner.calendar.local_clock import comes_twice, local_text
from runner.calendar.zones import zone
from runner.checkpoint.ops import AnyOf, At, Cron, Every, TriggerSpec

LONGEST_INTERVAL_S: Final = 3_650 * 86_400
Rule = Literal["gap", "fold"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned instant, as a person is told of it.

    Attributes:
        at_ms: milliseconds since the epoch, UTC.
        local: the same instant on the schedule's own clock, ISO 8601 with offset.
        rule: `gap` if it stands in for a reading that the clock jumped over, `fold` if its reading comes twice (a
            fixed-time job takes the first pass, a wildcard job both), else None.
    """

    at_ms: int
    local: str
    rule: Rule | None


def check_trigger(trigger: TriggerSpec, timezone: str) -> None:
    """Return if the trigger can fire and the zone is known.

    Raises:
        BadExpression: it cannot be meant; the text is one line for a person.
    """
    zone(timezone)
    match trigger:
        case Cron(expression=text):
            parse(text)
        case Every(interval_s=interval_s):
            if not 1 <= interval_s <= LONGEST_INTERVAL_S:
                raise BadExpression("every", f"every {interval_s} s is out of range; write 1 s to 3650 days")
        case At(instants_ms=instants_ms):
            for at_ms in instants_ms:
                if not 0 <= at_ms < LAST_S * 1000:
                    raise BadExpression("at", f"at {at_ms} ms lies outside the years 1970 to 9995")
        case AnyOf(triggers=parts):
            for part in parts:
                check_trigger(part, timezone)
        case _:
            assert_never(trigger)


def next_after(trigger: TriggerSpec, timezone: str, anchor_ms: int, after_ms: int) -> Planned | None:
    """Return the first planned instant strictly after one, or None if none is within reach (48 years, year 9996, once for `at`).

    Args:
        anchor_ms: what `every` counts from; of no meaning for the others.

    Raises:
        BadExpression: as `check_trigger`; for a stored trigger that means other time zone data than at its apply.
    """
    where = zone(timezone)
    match trigger:
        case Every(interval_s=interval_s):
            interval_ms = interval_s * 1000
            at_ms = anchor_ms + max(1, (after_ms - anchor_ms) // interval_ms + 1) * interval_ms
            return Planned(at_ms, local_text(at_ms, where), None) if at_ms < LAST_S * 1000 else None
        case Cron(expression=text):
            first = next(instants(parse(text), where, after_ms // 1000), None)
            if first is None:
                return None
            at_ms = first.at_s * 1000
            rule: Rule | None = "gap" if first.made_up else "fold" if comes_twice(at_ms, where) else None
            return Planned(at_ms, local_text(at_ms, where), rule)
        case At(instants_ms=instants_ms):
            later = instants_ms[bisect_right(instants_ms, after_ms) :][:1]
            return Planned(later[0], local_text(later[0], where), None) if later else None
        case AnyOf(triggers=parts):
            each = (next_after(part, timezone, anchor_ms, after_ms) for part in parts)
            return min((found for found in each if found is not None), key=lambda found: found.at_ms, default=None)
        case _:
            assert_never(trigger)


def instants_ms(trigger: Cron, timezone: str, after_ms: int) -> Iterator[int]:
    """Yield a cron trigger's instants strictly after one, ascending.

    Raises:
        BadExpression: as `next_after`.
    """
    for instant in instants(parse(trigger.expression), zone(timezone), after_ms // 1000):
        yield instant.at_s * 1000
