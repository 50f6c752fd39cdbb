"""What is planned, found by looking at every minute and second: no code of the product but its pinned time zone files.

It reads the text of an expression for itself, one date or time at a time, and walks real time with `zoneinfo`.
Every change of an offset from 1990 to 2040 falls on a whole minute (`changes` checks it), so seconds are looked at within
the minutes that match.
"""

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
CORRECTION = timedelta(hours=3)
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
BOUNDS = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}


@dataclass(frozen=True)
class Seen:
    """One planned instant: `what` is run, gap (made up) or skipped (by `dst_gap = "skip"`)."""

    at: datetime
    what: str


class Text:
    """A cron expression, asked about one date or time at a time."""

    def __init__(self, text: str) -> None:
        parts = text.lower().split()
        self.second, self.minute, self.hour, self.day, self.month, self.weekday = (
            parts if len(parts) == 6 else ["0", *parts]
        )
        self.wildcard = self.minute[0] == "*" or self.hour[0] == "*"
        self.seconds = [s for s in range(60) if number_matches(self.second, "second", s)]
        self.times = times(self.hour, self.minute)
        self.date_matches = lru_cache(maxsize=None)(self._date_matches)

    def minute_matches(self, wall: datetime) -> bool:
        return (wall.hour, wall.minute) in self.times and self.date_matches(wall.date())

    def _date_matches(self, day: date) -> bool:
        if not number_matches(self.month, "month", day.month):
            return False
        by_day = any(_day_item(item, day) for item in self.day.split(","))
        by_weekday = any(_weekday_item(item, day) for item in self.weekday.split(","))
        if self.day[0] == "*" or self.weekday[0] == "*":
            return by_day and by_weekday
        return by_day or by_weekday


@lru_cache(maxsize=1024)
def times(hour_field: str, minute_field: str) -> frozenset[tuple[int, int]]:
    hours = [hour for hour in range(24) if number_matches(hour_field, "hour", hour)]
    minutes = [minute for minute in range(60) if number_matches(minute_field, "minute", minute)]
    return frozenset((hour, minute) for hour in hours for minute in minutes)


@lru_cache(maxsize=65536)
def number_matches(field: str, kind: str, value: int) -> bool:
    names = (value, 7) if kind == "weekday" and value == 0 else (value,)
    return any(_item_matches(item, kind, name) for item in field.split(",") for name in names)


def _item_matches(item: str, kind: str, value: int) -> bool:
    low, high = BOUNDS[kind]
    span, _, step = item.partition("/")
    first, _, last = span.partition("-")
    begin = low if first == "*" else _number(first, kind)
    if last:
        end = 7 if last == "sun" and begin > 0 else _number(last, kind)
    else:
        end = {"*": 6 if kind == "weekday" else high}.get(first, high if step else begin)
    return begin <= value <= end and (value - begin) % int(step or 1) == 0


def _number(text: str, kind: str) -> int:
    words = {"month": MONTHS, "weekday": WEEKDAYS}.get(kind, [])
    return words.index(text) + (kind == "month") if text in words else int(text)


def _day_item(item: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if not item.endswith("w") and not item.startswith("l"):
        return number_matches(item, "day", day.day)
    text = item.removesuffix("w")
    meant = length - int(text[2:] or 0) if text.startswith("l") else int(text)
    if not 1 <= meant <= length:
        return False
    if not item.endswith("w"):
        return day.day == meant
    workdays = [d for d in range(1, length + 1) if date(day.year, day.month, d).isoweekday() <= 5]
    return day.day == min(workdays, key=lambda d: abs(d - meant))


def _weekday_item(item: str, day: date) -> bool:
    weekday = day.isoweekday() % 7
    length = calendar.monthrange(day.year, day.month)[1]
    if "#" in item:
        name, _, nth = item.partition("#")
        return weekday == _number(name, "weekday") % 7 and (day.day + 6) // 7 == int(nth)
    if item.endswith("l"):
        return weekday == _number(item[:-1], "weekday") % 7 and day.day + 7 > length
    return number_matches(item, "weekday", weekday)


def planned(text: Text, where: ZoneInfo, start: datetime, end: datetime, *, gap: str, fold: str) -> Iterator[Seen]:
    """Yield what is planned in `[start, end)` (whole minutes, UTC), unordered.

    What the clock repeats within a day of either end is not known to be a first or a last pass there.
    """
    passes: dict[datetime, list[datetime]] = {}
    ends_of_gaps: dict[datetime, str] = {}
    reached, before = None, None
    for at, wall, offset in walls(where, start, end):
        if text.minute_matches(wall):
            passes.setdefault(wall, []).append(at)
        if reached is not None and wall - reached > MINUTE and not text.wildcard and offset - before < CORRECTION:
            lost = reached + MINUTE
            while lost < wall and not text.minute_matches(lost):
                lost += MINUTE
            if lost < wall:
                ends_of_gaps[at] = "gap" if gap == "next" else "skipped"
        reached, before = max(wall, reached or wall), offset
    for times in passes.values():
        chosen = times if text.wildcard or fold == "both" else times[:1] if fold == "first" else times[-1:]
        for each in chosen:
            for second in text.seconds:
                at = each + timedelta(seconds=second)
                if ends_of_gaps.pop(at, None) == "gap":
                    yield Seen(at, "gap")
                else:
                    yield Seen(at, "run")
    for at, what in ends_of_gaps.items():
        yield Seen(at, what)


@lru_cache(maxsize=4)
def walls(where: ZoneInfo, start: datetime, end: datetime) -> list[tuple[datetime, datetime, timedelta]]:
    """Return each minute in `[start, end)`, what the clock on the wall shows at it, and the offset."""
    found = []
    for i in range((end - start) // MINUTE):
        at = start + MINUTE * i
        local = at.astimezone(where)
        found.append((at, local.replace(tzinfo=None), local.utcoffset()))
    return found


def changes(where: ZoneInfo, since: datetime, until: datetime) -> list[datetime]:
    """Return the instants at which a zone's offset changes; none that lasted for less than four days is found."""
    found, at = [], since
    while at < until:
        to = at + timedelta(days=4)
        before = at.astimezone(where).utcoffset()
        if to.astimezone(where).utcoffset() != before:
            low, high = at, to
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                middle = middle.replace(microsecond=0)
                if middle.astimezone(where).utcoffset() == before:
                    low = middle
                else:
                    high = middle
            assert high.second == 0, f"{where.key} changes at {high}"
            found.append(high)
        at = to
    return found


def utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
