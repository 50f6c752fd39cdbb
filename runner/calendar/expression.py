"""Five cron fields as Debian's cron reads them, or six with the second in front: text in, matching times and days out.

Source: Debian's crontab(5); the vectors in tests/cases/calendar.json name what differs elsewhere.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from runner.calendar.dates import days_of_month, days_of_week, kind_index, lengths, matching_days
from runner.calendar.faults import BadExpression
from runner.calendar.fields import FIELDS, HOUR, MINUTE, MONTH, SECOND, values

__all__ = ["ALIASES", "MAX_CHARS", "BadExpression", "Expression", "parse"]

MAX_CHARS: Final = 1_000
ALIASES: Final = MappingProxyType(
    {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
    }
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed cron expression.

    Attributes:
        seconds: matching seconds of a minute, ascending; 0 alone where five fields are written.
        minutes_of_day: matching minutes since local midnight, ascending.
        months: matching months, 1 to 12, ascending.
        days: matching days of the month, ascending, for each kind of month (`dates.kind_index`).
        wildcard: the minute or hour field begins with `*`: the job follows the clock hand and is neither made up nor
            held back when the clock is changed. The seconds do not decide it.
    """

    seconds: tuple[int, ...]
    minutes_of_day: tuple[int, ...]
    months: tuple[int, ...]
    days: tuple[tuple[int, ...], ...]
    wildcard: bool


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Return the meaning of five or six cron fields, or of a name such as `@daily`.

    Raises:
        BadExpression: a field is malformed or out of range, or no date can ever match.
    """
    second, minute, hour, day, month, weekday = _split(text)
    seconds, minutes, hours = values(SECOND, second), values(MINUTE, minute), values(HOUR, hour)
    of_month = days_of_month(day)
    months, of_week = values(MONTH, month), days_of_week(weekday)
    days = matching_days(of_month, of_week)
    if not any(days[kind_index(length, first)] for each in months for length in lengths(each) for first in range(7)):
        what = f"is {day!r}" if weekday == "*" else f"is both day of month {day!r} and day of week {weekday!r}"
        raise BadExpression("cron", f"cron {text!r} never comes: no day of its months {what}; name one that they have")
    return Expression(
        seconds=tuple(sorted(seconds)),
        minutes_of_day=tuple(hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)),
        months=tuple(sorted(months)),
        days=days,
        wildcard=minute.startswith("*") or hour.startswith("*"),
    )


def _split(text: str) -> list[str]:
    """Return six fields; second 0 where five are written."""
    if len(text) > MAX_CHARS:
        raise BadExpression("cron", f"cron has {len(text)} characters; {MAX_CHARS} is the most")
    if not all(char == "\t" or " " <= char <= "~" for char in text):
        raise BadExpression("cron", f"cron {text!r} holds a character that is no plain ASCII text on one line")
    parts = text.split()
    if parts and parts[0].startswith("@"):
        parts = _named(text, parts).split()
    if len(parts) == len(FIELDS):
        return ["0", *parts]
    if len(parts) != len(FIELDS) + 1:
        names = ", ".join(field.name for field in FIELDS)
        right = f"write five ({names}), or six with the second in front"
        raise BadExpression("cron", f"cron {text!r} has {len(parts)} fields; {right}")
    return parts


def _named(text: str, parts: list[str]) -> str:
    name = parts[0].lower()
    if name in ALIASES and len(parts) == 1:
        return ALIASES[name]
    if name == "@every":
        right = 'write every = "5m" instead of cron'
    elif name in ALIASES:
        right = f"write {name} alone, or five fields"
    else:
        near = get_close_matches(name, sorted(ALIASES), n=1)
        right = f"did you mean {near[0]}?" if near else f"write one of {', '.join(ALIASES)}"
    raise BadExpression("cron", f"cron {text!r}: {parts[0]!r} is no name of a time; {right}")
