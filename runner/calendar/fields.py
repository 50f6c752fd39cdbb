"""The fields of a cron expression that are numbers or names: lists, ranges and steps.

Source: Debian's crontab(5).
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from runner.calendar.faults import BadExpression


@dataclass(frozen=True, slots=True)
class Field:
    """One of the fields: what it is called and which numbers and words it takes.

    Attributes:
        size: how many different values it has (weekday 7 is 0 again), the longest step that means anything.
        more: what it takes beside numbers and words, for the text of an error.
    """

    name: str
    low: int
    high: int
    size: int
    words: tuple[str, ...] = ()
    more: str = ""


SECOND: Final = Field("second", 0, 59, 60)
MINUTE: Final = Field("minute", 0, 59, 60)
HOUR: Final = Field("hour", 0, 23, 24)
DAY: Final = Field("day of month", 1, 31, 31, more=", L, L-3, LW or 15W")
MONTH: Final = Field(
    "month", 1, 12, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
)
WEEKDAY: Final = Field("day of week", 0, 7, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"), more=", 5L or 1#2")
FIELDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def values(field: Field, text: str) -> frozenset[int]:
    """Return the numbers that a field without special days names.

    Raises:
        BadExpression: an item is malformed or out of range.
    """
    return frozenset(value for item in items(field, text) for value in span(field, item))


def items(field: Field, text: str) -> list[str]:
    """Return the items of a list.

    Raises:
        BadExpression: one is empty.
    """
    found = text.split(",")
    if not all(found):
        raise BadExpression("cron", f"{field.name}: an empty item in {text!r}; take one comma away")
    return found


def span(field: Field, item: str) -> range:
    """Return the values of `*`, `5`, `1-5`, and each with `/step`; a single number with a step runs to the end.

    Raises:
        BadExpression: the item is malformed or out of range.
    """
    text, slash, step_text = item.partition("/")
    step = _step(field, item, step_text) if slash else 1
    if text == "*":
        return range(field.low, field.low + field.size, step)
    first_text, dash, last_text = text.partition("-")
    first = number(field, first_text)
    if not dash:
        return range(first, (field.high if slash else first) + 1, step)
    last = number(field, last_text)
    if field is WEEKDAY and last_text.lower() == "sun" and first > 0:
        last = 7  # fri-sun ends on the coming Sunday
    if last < first:
        raise BadExpression("cron", f"{field.name}: range {text!r} runs backwards; write {last_text}-{first_text}")
    return range(first, last + 1, step)


def number(field: Field, text: str) -> int:
    """Return what one number or word of a field means.

    Raises:
        BadExpression: it is neither, or out of range.
    """
    if text.lower() in field.words:
        return field.low + field.words.index(text.lower())
    value = decimal(text)
    if value is None:
        raise BadExpression("cron", _not_a_value(field, text))
    if not field.low <= value <= field.high:
        raise BadExpression("cron", f"{field.name}: {text} is out of range; write {field.low} to {field.high}")
    return value


def decimal(text: str) -> int | None:
    """Return a number of plain digits, else None."""
    return int(text) if text.isascii() and text.isdigit() else None


def _step(field: Field, item: str, text: str) -> int:
    step = decimal(text)
    if step is None or not 1 <= step <= field.size:
        raise BadExpression("cron", f"{field.name}: step {text!r} in {item!r}; a step is 1 to {field.size}")
    return step


def _not_a_value(field: Field, text: str) -> str:
    if text == "?":
        return f"{field.name}: '?' is not a value; write *"
    takes = f"{field.low} to {field.high}" + (f" or {field.words[0]} … {field.words[-1]}" if field.words else "")
    near = get_close_matches(text.lower(), field.words, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"write {takes}{field.more}"
    return f"{field.name}: {text!r} is not a value; {hint}"
