"""When a schedule does not run although its trigger says so: dates, ranges of dates, weekly windows, named calendars.

All of it is read on the schedule's own clock. A reading is seconds since 1970-01-01T00:00 on that clock, a day the days
since then; windows hold their first minute and not their last.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from runner.calendar.faults import BadExpression
from runner.calendar.fields import WEEKDAY, values
from runner.calendar.wall import DAY_S, EPOCH_ORDINAL, EPOCH_WEEKDAY

MAX_ENTRIES: Final = 1_000
MAX_DATES: Final = 10_000
WEEK_S: Final = 7 * DAY_S
MAX_CHARS: Final = 100
SHOWN_CHARS: Final = 60
YEARS: Final = range(1970, 9996)

_RANGE: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?", re.ASCII)
_WINDOW: Final = re.compile(r"([A-Za-z0-7,-]+)(?: +(\d\d):(\d\d)-(\d\d):(\d\d))?", re.ASCII)
_NAMED: Final = re.compile(r"calendar:(\S+)")
_RIGHT: Final = "write 2026-12-25, 2026-12-24..2027-01-01, sat,sun, mon-fri 22:00-06:00 or calendar:NAME"


@dataclass(frozen=True, slots=True)
class Dates:
    """Whole days, both ends included, as days since 1970-01-01."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Window:
    """The same hours on some days of each week.

    Attributes:
        weekdays: the days on which it begins, Sunday = 0, ascending.
        from_minute: minutes since midnight, 0 to 1439.
        to_minute: 1 to 1440, exclusive; not after `from_minute` if it ends on the next day.
    """

    weekdays: tuple[int, ...]
    from_minute: int
    to_minute: int


@dataclass(frozen=True, slots=True)
class Named:
    """A calendar that several schedules share, by its name."""

    name: str


Entry = Dates | Window | Named


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Entries made ready for asking; made by `exclusions`.

    Attributes:
        dates: stretches of excluded days as readings `[from_s, to_s)`, ascending, apart from each other.
        week: stretches of an excluded week as seconds since Sunday 00:00, ascending, apart from each other.
    """

    dates: tuple[tuple[int, int], ...] = ()
    week: tuple[tuple[int, int], ...] = ()

    def covering(self, reading_s: int) -> tuple[int, int] | None:
        """Return the excluded stretch of readings `[from_s, to_s)` that holds one, or None."""
        found = _holding(self.dates, reading_s)
        if found is None and self.week:
            sunday_s = reading_s - (reading_s + EPOCH_WEEKDAY * DAY_S) % WEEK_S
            piece = _holding(self.week, reading_s - sunday_s)
            found = None if piece is None else (sunday_s + piece[0], sunday_s + piece[1])
        return found

    def free_until(self, reading_s: int) -> int | None:
        """Return the reading at which the next excluded stretch begins, given one that none covers; None if none does."""
        begins = [from_s for from_s, _ in self.dates[bisect_right(self.dates, reading_s, key=_begin) :][:1]]
        if self.week:
            sunday_s = reading_s - (reading_s + EPOCH_WEEKDAY * DAY_S) % WEEK_S
            place = bisect_right(self.week, reading_s - sunday_s, key=_begin)
            later_s = self.week[place][0] if place < len(self.week) else WEEK_S + self.week[0][0]
            begins.append(sunday_s + later_s)
        return min(begins, default=None)


NONE: Final = Exclusions()


def entry(text: str) -> Entry:
    """Return what one line of a list of exclusions means.

    Raises:
        BadExpression: it is none of the forms, or names a date or time of day that does not exist.
    """
    if len(text) > MAX_CHARS:
        raise _refused(text, f"has {len(text)} characters; {_RIGHT}")
    if match := _NAMED.fullmatch(text):
        return Named(match[1])
    if match := _RANGE.fullmatch(text):
        first, last = _day(text, match[1]), _day(text, match[2] or match[1])
        if last < first:
            raise _refused(text, f"runs backwards; write {match[2]}..{match[1]}")
        return Dates(first, last)
    if match := _WINDOW.fullmatch(text):
        weekdays = tuple(sorted({day % 7 for day in _weekdays(text, match[1])}))
        if match[2] is None:
            return Window(weekdays, 0, DAY_S // 60)
        from_minute, to_minute = _minute(text, match[2], match[3]), _minute(text, match[4], match[5])
        if from_minute == to_minute or from_minute == DAY_S // 60:
            raise _refused(text, "is an empty window; write the days alone for whole days, or another end")
        return Window(weekdays, from_minute, to_minute or DAY_S // 60)
    raise _refused(text, f"is not an exclusion; {_RIGHT}")


def exclusions(entries: Iterable[Entry], calendars: Mapping[str, Iterable[Dates]]) -> Exclusions:
    """Return entries made ready for asking.

    Args:
        calendars: what each named calendar holds; others than those that are named may be in it.

    Raises:
        BadExpression: a calendar is not there, there is too much of it, or all of every week is excluded.
    """
    dates: list[tuple[int, int]] = []
    week: list[tuple[int, int]] = []
    for count, each in enumerate(entries, start=1):
        if count > MAX_ENTRIES:
            raise BadExpression("exclude", f"exclude has more than {MAX_ENTRIES} entries; put dates into a calendar")
        match each:
            case Dates():
                dates.append(_readings(each))
            case Window():
                week += _of_week(each)
            case Named(name=name):
                dates += [_readings(days) for days in _calendar(name, calendars)]
        if len(dates) > MAX_DATES:
            raise BadExpression("exclude", f"exclude holds more than {MAX_DATES} dates and ranges; join neighbours")
    joined = _joined(week)
    if joined == ((0, WEEK_S),):
        raise BadExpression("exclude", "exclude holds every hour of the week, so nothing would run; leave some out")
    return Exclusions(_joined(dates), joined)


@lru_cache(maxsize=1024)
def exclusions_of(texts: tuple[str, ...], calendars: tuple[tuple[str, tuple[Dates, ...]], ...] = ()) -> Exclusions:
    """Return what a list of texts excludes; remembered, so that asking again costs nothing.

    Raises:
        BadExpression: as `entry` and `exclusions`.
    """
    return exclusions((entry(text) for text in texts), dict(calendars)) if texts else NONE


def _begin(stretch: tuple[int, int]) -> int:
    return stretch[0]


def _holding(stretches: tuple[tuple[int, int], ...], at_s: int) -> tuple[int, int] | None:
    place = bisect_right(stretches, at_s, key=_begin) - 1
    return stretches[place] if place >= 0 and at_s < stretches[place][1] else None


def _joined(stretches: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for from_s, to_s in sorted(stretches):
        if found and from_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], to_s))
        else:
            found.append((from_s, to_s))
    return tuple(found)


def _readings(days: Dates) -> tuple[int, int]:
    return days.first * DAY_S, (days.last + 1) * DAY_S


def _of_week(window: Window) -> list[tuple[int, int]]:
    """Return a window as parts of a week; what begins on Saturday and ends on Sunday is cut at the week's end."""
    crosses = window.to_minute <= window.from_minute
    length_s = (window.to_minute - window.from_minute) * 60 + (DAY_S if crosses else 0)
    found: list[tuple[int, int]] = []
    for weekday in window.weekdays:
        from_s = weekday * DAY_S + window.from_minute * 60
        to_s = from_s + length_s
        found.append((from_s, min(to_s, WEEK_S)))
        if to_s > WEEK_S:
            found.append((0, to_s - WEEK_S))
    return found


def _calendar(name: str, calendars: Mapping[str, Iterable[Dates]]) -> Iterable[Dates]:
    if name in calendars:
        return calendars[name]
    near = get_close_matches(name, sorted(calendars), n=1)
    right = f"did you mean {near[0]}?" if near else "define it, or take it out"
    raise BadExpression("exclude", f"exclude: there is no calendar {name[:SHOWN_CHARS]!r}; {right}")


def _day(text: str, written: str) -> int:
    try:
        found = date.fromisoformat(written)
    except ValueError:
        raise _refused(text, f"names no date: there is no {written}; {_RIGHT}") from None
    if found.year not in YEARS:
        raise _refused(text, f"lies outside the years {YEARS[0]} to {YEARS[-1]}")
    return found.toordinal() - EPOCH_ORDINAL


def _weekdays(text: str, written: str) -> frozenset[int]:
    try:
        return values(WEEKDAY, written)
    except BadExpression as fault:
        why = str(fault) if any(letter.isalpha() for letter in written) else _RIGHT
        raise _refused(text, f"is not an exclusion; {why}") from fault


def _minute(text: str, hour: str, minute: str) -> int:
    found = int(hour) * 60 + int(minute)
    if int(minute) >= 60 or found > DAY_S // 60:  # noqa: PLR2004 - minutes of an hour
        raise _refused(text, f"names no time of day: {hour}:{minute}; write 00:00 to 24:00")
    return found


def _refused(text: str, why: str) -> BadExpression:
    shown = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
    return BadExpression("exclude", f"exclude {shown!r} {why}")
