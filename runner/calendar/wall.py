"""Which readings of a wall clock match a cron expression, as if every day had 24 hours.

A reading is an integer: seconds since 1970-01-01T00:00 *on that clock*, no zone attached (`wall_s`).
"""

from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator
from datetime import MAXYEAR, date
from typing import Final

from runner.calendar.dates import FEBRUARY, MONTH_DAYS, kind_index
from runner.calendar.expression import Expression

DAY_S: Final = 86_400
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
EPOCH_WEEKDAY: Final = 4  # a Thursday, counted from Sunday
LAST_DAY: Final = date(9998, 12, 31).toordinal() - EPOCH_ORDINAL
# 29 February on one weekday can be 40 years away: the leap day that falls out in 2100 stretches the usual 28.
SEARCH_DAYS: Final = 48 * 366


def matching_day(expression: Expression, from_day: int) -> int | None:
    """Return the first matching date at or after a day (both as days since 1970-01-01); None if none is in reach.

    Goes from month to month, some hundred at most: what matches in a month of its kind is known beforehand.
    """
    last_day = min(from_day + SEARCH_DAYS, LAST_DAY)
    if from_day > last_day:
        return None
    for year, month in _months(expression, date.fromordinal(from_day + EPOCH_ORDINAL)):
        before = date(year, month, 1).toordinal() - EPOCH_ORDINAL - 1
        if before >= last_day:
            break
        days = expression.days[kind_index(_length(year, month), (before + 1 + EPOCH_WEEKDAY) % 7)]
        place = bisect_left(days, from_day - before)
        if place < len(days):
            found = before + days[place]
            return found if found <= last_day else None
    return None


def readings(expression: Expression, from_s: int, to_s: int) -> Iterator[int]:
    """Yield every matching reading in `[from_s, to_s)`, ascending."""
    day = matching_day(expression, from_s // DAY_S)
    while day is not None and day * DAY_S < to_s:
        midnight_s = day * DAY_S
        first = bisect_left(expression.minutes_of_day, (from_s - midnight_s) // 60)
        for minute in expression.minutes_of_day[first:]:
            for second in expression.seconds:
                reading = midnight_s + minute * 60 + second
                if reading >= to_s:
                    return
                if reading >= from_s:
                    yield reading
        day = matching_day(expression, day + 1)


def counted(expression: Expression, from_s: int, to_s: int) -> tuple[int, int, int] | None:
    """Return how many readings match in `[from_s, to_s)`, the first and the last; None if none does.

    Counts whole days by arithmetic: the work grows with the days, not with the readings.
    """
    count, first_s, last_s = 0, 0, 0
    day = matching_day(expression, from_s // DAY_S)
    while day is not None and day * DAY_S < to_s:
        midnight_s = day * DAY_S
        low, high = _rank(expression, from_s - midnight_s), _rank(expression, to_s - midnight_s)
        if low < high:
            first_s = first_s if count else midnight_s + _at(expression, low)
            last_s = midnight_s + _at(expression, high - 1)
            count += high - low
        day = matching_day(expression, day + 1)
    return (count, first_s, last_s) if count else None


def _rank(expression: Expression, second_of_day: int) -> int:
    """Return how many of a matching day's readings come before a second of it (of another day: none or all)."""
    minute, second = divmod(min(max(second_of_day, 0), DAY_S), 60)
    place = bisect_left(expression.minutes_of_day, minute)
    within = place < len(expression.minutes_of_day) and expression.minutes_of_day[place] == minute
    return place * len(expression.seconds) + (bisect_left(expression.seconds, second) if within else 0)


def _at(expression: Expression, rank: int) -> int:
    """Return the second of a matching day at which its reading of a rank comes."""
    place, second = divmod(rank, len(expression.seconds))
    return expression.minutes_of_day[place] * 60 + expression.seconds[second]


def _months(expression: Expression, since: date) -> Iterator[tuple[int, int]]:
    """Yield each matching month from the one of `since` on."""
    yield from ((since.year, month) for month in expression.months if month >= since.month)
    for year in range(since.year + 1, MAXYEAR):
        yield from ((year, month) for month in expression.months)


def _length(year: int, month: int) -> int:
    return 28 if month == FEBRUARY and not isleap(year) else MONTH_DAYS[month - 1]
