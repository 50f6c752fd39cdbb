"""Which readings of a wall clock match a cron expression, as if every day had 24 hours.

A reading is an integer: seconds since 1970-01-01T00:00 *on that clock*, no zone attached (`wall_s`).
"""

from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator
from datetime import MAXYEAR, date
from typing import Final

from runner.calendar.expression import MONTH_DAYS, Expression

DAY_S: Final = 86_400
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
EPOCH_WEEKDAY: Final = 4  # a Thursday, counted from Sunday
FEBRUARY: Final = 2
LAST_DAY: Final = date(9998, 12, 31).toordinal() - EPOCH_ORDINAL
# 29 February on one weekday can be 40 years away: the leap day that falls out in 2100 stretches the usual 28.
SEARCH_DAYS: Final = 48 * 366


def matching_day(expression: Expression, from_day: int) -> int | None:
    """Return the first matching date at or after a day (both as days since 1970-01-01); None if none is in reach.

    Goes from month to month and, in each, over the days that the expression names: some hundred steps at most.
    """
    last_day = min(from_day + SEARCH_DAYS, LAST_DAY)
    if from_day > last_day:
        return None
    for year, month in _months(expression, date.fromordinal(from_day + EPOCH_ORDINAL)):
        before = date(year, month, 1).toordinal() - EPOCH_ORDINAL - 1
        if before >= last_day:
            break
        for day in _days(expression, before, _length(year, month)):
            if day >= from_day:
                return day if day <= last_day else None
    return None


def readings(expression: Expression, from_s: int, to_s: int) -> Iterator[int]:
    """Yield every matching reading in `[from_s, to_s)`, ascending."""
    day = matching_day(expression, from_s // DAY_S)
    while day is not None and day * DAY_S < to_s:
        midnight_s = day * DAY_S
        first = bisect_left(expression.minutes_of_day, (from_s - midnight_s + 59) // 60)
        for minute in expression.minutes_of_day[first:]:
            if midnight_s + minute * 60 >= to_s:
                return
            yield midnight_s + minute * 60
        day = matching_day(expression, day + 1)


def _months(expression: Expression, since: date) -> Iterator[tuple[int, int]]:
    """Yield each matching month from the one of `since` on."""
    yield from ((since.year, month) for month in expression.months if month >= since.month)
    for year in range(since.year + 1, MAXYEAR):
        yield from ((year, month) for month in expression.months)


def _days(expression: Expression, before: int, length: int) -> Iterator[int]:
    """Yield the matching days of a month, given the day before its first and how many it has."""
    days = range(1, length + 1) if expression.either_day else expression.days
    for day in days:
        if day > length:
            return
        by_weekday = (before + day + EPOCH_WEEKDAY) % 7 in expression.weekdays
        if by_weekday or (expression.either_day and day in expression.days):
            yield before + day


def _length(year: int, month: int) -> int:
    return 28 if month == FEBRUARY and not isleap(year) else MONTH_DAYS[month - 1]
