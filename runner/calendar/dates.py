"""The two date fields of a cron expression, and which days of a month they name together.

A month is known by its length and the weekday on which it begins: 28 kinds. What an expression means in each is worked
out once, so `L`, `5#5` or `15W` cost no more to search for than a number.

Source for `L`, `L-3`, `LW`, `15W`, `5L` and `1#2`: Quartz' CronTrigger tutorial (there Sunday is 1; here, as in cron, 0).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from runner.calendar.faults import BadExpression
from runner.calendar.fields import DAY, WEEKDAY, items, number, span

SHORTEST: Final = 28
LONGEST: Final = 31
SUNDAY: Final = 0
SATURDAY: Final = 6
LAST_NTH: Final = 5
MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
FEBRUARY: Final = 2
KINDS: Final = tuple((length, first) for length in range(SHORTEST, LONGEST + 1) for first in range(7))

_SPECIAL_DAY: Final = re.compile(
    r"(?:(?P<last>l)(?:-(?P<before>\d{1,3}))?|(?P<day>\d{1,3})(?=w))(?P<near>w)?", re.ASCII
)

# Given a month's length and the weekday of its first day: the day that is meant, or None if this month has none.
Pick = Callable[[int, int], int | None]


@dataclass(frozen=True, slots=True)
class DateField:
    """One of the two date fields, read.

    Attributes:
        plain: numbers as written.
        picks: what depends on the month.
        starred: it begins with `*`.
    """

    plain: frozenset[int]
    picks: tuple[Pick, ...]
    starred: bool


def days_of_month(text: str) -> DateField:
    """Return what a day-of-month field means.

    Raises:
        BadExpression: an item is malformed or out of range.
    """
    return _read(text, DAY.name, _day_item)


def days_of_week(text: str) -> DateField:
    """Return what a day-of-week field means; Sunday is 0.

    Raises:
        BadExpression: an item is malformed or out of range.
    """
    return _read(text, WEEKDAY.name, _weekday_item)


def matching_days(days: DateField, weekdays: DateField) -> tuple[tuple[int, ...], ...]:
    """Return the days that both fields name together, ascending, for each of `KINDS`.

    A day needs to match only one of the fields if both are restricted, both of them if either begins with `*`.
    """
    found = []
    for length, first in KINDS:
        by_day = {day for day in days.plain if day <= length} | _picked(days.picks, length, first)
        by_weekday = {day for day in range(1, length + 1) if weekday_of(day, first) in weekdays.plain}
        by_weekday |= _picked(weekdays.picks, length, first)
        either = not days.starred and not weekdays.starred
        found.append(tuple(sorted(by_day | by_weekday if either else by_day & by_weekday)))
    return tuple(found)


def kind_index(length: int, first: int) -> int:
    """Return where a kind of month stands in `KINDS`, given its length and the weekday on which it begins."""
    return (length - SHORTEST) * 7 + first


def lengths(month: int) -> Iterable[int]:
    """Return how many days a month, 1 to 12, can have."""
    return (SHORTEST, SHORTEST + 1) if month == FEBRUARY else (MONTH_DAYS[month - 1],)


def weekday_of(day: int, first: int) -> int:
    """Return the weekday of a day of the month, Sunday = 0, given that of the first."""
    return (first + day - 1) % 7


def _read(text: str, name: str, item_of: Callable[[str], Iterable[int] | Pick]) -> DateField:
    plain: set[int] = set()
    picks: list[Pick] = []
    for item in items(DAY if name == DAY.name else WEEKDAY, text):
        meaning = item_of(item)
        if callable(meaning):
            picks.append(meaning)
        else:
            plain.update(meaning)
    return DateField(frozenset(plain), tuple(picks), text.startswith("*"))


def _picked(picks: Iterable[Pick], length: int, first: int) -> set[int]:
    return {day for pick in picks if (day := pick(length, first)) is not None}


def _day_item(item: str) -> Iterable[int] | Pick:
    """Return what `L`, `L-3`, `LW`, `L-3W`, `15W` or a span of numbers means."""
    special = _SPECIAL_DAY.fullmatch(item.lower())
    if special is None:
        if any(mark in item.lower() for mark in "lw#"):
            right = f"write {DAY.low} to {DAY.high}{DAY.more}, each as an item of its own"
            raise BadExpression("cron", f"{DAY.name}: {item!r} is not a value; {right}")
        return span(DAY, item)
    if special["last"]:
        before = int(special["before"] or 0)
        if special["before"] and not 1 <= before < LONGEST:
            right = f"write L for the last day, L-1 to L-{LONGEST - 1} for one before it"
            raise BadExpression("cron", f"{DAY.name}: {item!r} is out of range; {right}")

        def named(length: int) -> int:
            return length - before
    else:
        day = number(DAY, special["day"])

        def named(length: int) -> int:
            return day if day <= length else 0

    return _nearest(named) if special["near"] else lambda length, _first: max(0, named(length)) or None


def _nearest(named: Callable[[int], int]) -> Pick:
    """Return Monday to Friday nearest to a day, never outside its month."""

    def pick(length: int, first: int) -> int | None:
        day = named(length)
        if day < 1:
            return None
        weekday = weekday_of(day, first)
        if weekday == SATURDAY:
            return day - 1 if day > 1 else day + 2
        if weekday == SUNDAY:
            return day + 1 if day < length else day - 2
        return day

    return pick


def _weekday_item(item: str) -> Iterable[int] | Pick:
    """Return what `5L`, `1#2` or a span of weekdays means."""
    text = item.lower()
    named, hash_mark, nth_text = text.partition("#")
    if hash_mark:
        weekday = number(WEEKDAY, named) % 7
        if nth_text not in {"1", "2", "3", "4", "5"}:
            right = f"write {named}#1 to {named}#{LAST_NTH}, or {named}L for the last"
            raise BadExpression("cron", f"{WEEKDAY.name}: {item!r} is not a value; {right}")
        return _nth(weekday, int(nth_text))
    if text.endswith("l") and text != "l":
        return _last(number(WEEKDAY, item[:-1]) % 7)
    if "l" in text or (text.endswith("w") and text[:-1].isdigit()):
        right = "write 5L for the last Friday; L and W alone belong to the day of month"
        raise BadExpression("cron", f"{WEEKDAY.name}: {item!r} is not a value; {right}")
    return (day % 7 for day in span(WEEKDAY, item))


def _nth(weekday: int, nth: int) -> Pick:
    def pick(length: int, first: int) -> int | None:
        day = (weekday - first) % 7 + 1 + 7 * (nth - 1)
        return day if day <= length else None

    return pick


def _last(weekday: int) -> Pick:
    def pick(length: int, first: int) -> int | None:
        return length - (weekday_of(length, first) - weekday) % 7

    return pick
