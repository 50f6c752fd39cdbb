"""Which readings of a wall clock match a cron expression, as if every day had 24 hours.

A reading is an integer: seconds since 1970-01-01T00:00 *on that clock*, no zone attached (`wall_s`).
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from typing import Final

from runner.calendar.expression import Expression

DAY_S: Final = 86_400
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
LAST_DAY: Final = date(9998, 12, 31).toordinal() - EPOCH_ORDINAL
# 29 February on one weekday can be 40 years away: the leap day that falls out in 2100 stretches the usual 28.
SEARCH_DAYS: Final = 48 * 366


def matching_day(expression: Expression, from_day: int) -> int | None:
    """Return the first matching date at or after a day (both as days since 1970-01-01); None if none is in reach."""
    day = from_day
    while day <= min(from_day + SEARCH_DAYS, LAST_DAY):
        today = date.fromordinal(day + EPOCH_ORDINAL)
        if today.month not in expression.months:
            day += _days_left(today)
            continue
        if _day_matches(expression, today):
            return day
        day += 1
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


def _days_left(today: date) -> int:
    """Return how many days it is to the first of the next month."""
    year, month = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)  # noqa: PLR2004 - December
    return date(year, month, 1).toordinal() - today.toordinal()


def _day_matches(expression: Expression, today: date) -> bool:
    by_day = today.day in expression.days
    by_weekday = today.isoweekday() % 7 in expression.weekdays
    return by_day or by_weekday if expression.either_day else by_day and by_weekday
