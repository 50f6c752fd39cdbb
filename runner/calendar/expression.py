"""Five cron fields as Debian's cron reads them: text in, the matching minutes and days out.

Source: Debian's crontab(5); the vectors in tests/cases/calendar.json name what differs elsewhere.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, Literal

MAX_CHARS: Final = 1_000
MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class BadExpression(ValueError):
    """A trigger or time zone that cannot be meant; the text names the field, the value and what would be right.

    Attributes:
        key: the key of the schedule file that is wrong.
    """

    def __init__(self, key: Literal["cron", "every", "at", "timezone"], text: str) -> None:
        """Keep the key apart, so that a caller can point at the line."""
        super().__init__(text)
        self.key = key


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five fields: what it is called and which numbers and words it takes.

    Attributes:
        size: how many different values it has (weekday 7 is 0 again), the longest step that means anything.
    """

    name: str
    low: int
    high: int
    size: int
    words: tuple[str, ...] = ()


MINUTE: Final = Field("minute", 0, 59, 60)
HOUR: Final = Field("hour", 0, 23, 24)
DAY: Final = Field("day of month", 1, 31, 31)
MONTH: Final = Field(
    "month", 1, 12, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
)
WEEKDAY: Final = Field("day of week", 0, 7, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
FIELDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed cron expression.

    Attributes:
        minutes_of_day: matching minutes since local midnight, ascending.
        days: matching days of the month, ascending.
        months: matching months, 1 to 12, ascending.
        weekdays: matching days of the week, Sunday = 0.
        either_day: both day fields are restricted, so a date needs to match only one of them.
        wildcard: the minute or hour field begins with `*`: the job follows the clock hand and is neither made up nor
            held back when the clock is changed.
    """

    minutes_of_day: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: frozenset[int]
    either_day: bool
    wildcard: bool


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Return the meaning of five cron fields.

    Raises:
        BadExpression: a field is malformed or out of range, or no date can ever match.
    """
    parts = _split(text)
    minutes, hours, days, months, weekdays = (_values(f, part) for f, part in zip(FIELDS, parts, strict=True))
    either_day = not parts[2].startswith("*") and not parts[4].startswith("*")
    if not either_day and min(days) > max(MONTH_DAYS[month - 1] for month in months):
        raise BadExpression("cron", f"cron {text!r} never comes: day {min(days)} is in none of its months")
    return Expression(
        minutes_of_day=tuple(hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)),
        days=tuple(sorted(days)),
        months=tuple(sorted(months)),
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=either_day,
        wildcard=parts[0].startswith("*") or parts[1].startswith("*"),
    )


def _split(text: str) -> list[str]:
    if len(text) > MAX_CHARS:
        raise BadExpression("cron", f"cron has {len(text)} characters; {MAX_CHARS} is the most")
    if not all(char == "\t" or " " <= char <= "~" for char in text):
        raise BadExpression("cron", f"cron {text!r} holds a character that is no plain ASCII text on one line")
    parts = text.lower().split()
    if parts and parts[0].startswith("@"):
        raise BadExpression("cron", f"cron {text!r}: names such as @daily are not supported; write 0 0 * * *")
    if len(parts) == len(FIELDS) + 1:
        raise BadExpression("cron", f"cron {text!r} has six fields; seconds are not supported, write five")
    if len(parts) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        raise BadExpression("cron", f"cron {text!r} has {len(parts)} fields; write five: {names}")
    return parts


def _values(field: Field, text: str) -> frozenset[int]:
    return frozenset(value for item in text.split(",") for value in _item(field, item))


def _item(field: Field, item: str) -> range:
    """Return the values of `*`, `5`, `1-5`, and each with `/step`; a single number with a step runs to the end."""
    if not item:
        raise BadExpression("cron", f"{field.name}: an empty item in a list; take one comma away")
    span, slash, step_text = item.partition("/")
    step = _step(field, item, step_text) if slash else 1
    if span == "*":
        return range(field.low, field.low + field.size, step)
    first_text, dash, last_text = span.partition("-")
    first = _number(field, first_text)
    if not dash:
        return range(first, (field.high if slash else first) + 1, step)
    last = _number(field, last_text)
    if field is WEEKDAY and last_text == "sun" and first > 0:
        last = 7  # fri-sun ends on the coming Sunday
    if last < first:
        raise BadExpression("cron", f"{field.name}: range {span!r} runs backwards; write {last_text}-{first_text}")
    return range(first, last + 1, step)


def _step(field: Field, item: str, text: str) -> int:
    step = _decimal(text)
    if step is None or not 1 <= step <= field.size:
        raise BadExpression("cron", f"{field.name}: step {text!r} in {item!r}; a step is 1 to {field.size}")
    return step


def _number(field: Field, text: str) -> int:
    if text in field.words:
        return field.low + field.words.index(text)
    value = _decimal(text)
    if value is None:
        raise BadExpression("cron", _not_a_value(field, text))
    if not field.low <= value <= field.high:
        raise BadExpression("cron", f"{field.name}: {text} is out of range; write {field.low} to {field.high}")
    return value


def _decimal(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _not_a_value(field: Field, text: str) -> str:
    if field in {DAY, WEEKDAY} and any(mark in text for mark in "lw#") and any(c.isdigit() or c in "lw" for c in text):
        return f"{field.name}: {text!r}: L, W and # are not supported; write days as numbers"
    takes = f"{field.low} to {field.high}" + (f" or {field.words[0]} … {field.words[-1]}" if field.words else "")
    near = get_close_matches(text, field.words, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"write {takes}"
    return f"{field.name}: {text!r} is not a value; {hint}"
