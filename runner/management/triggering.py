"""When a schedule is due, from a body to the op: its trigger, the span in which it plans, and what it excludes."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from typing import Final, Self, TypeVar

from runner.calendar import BadExpression, check_trigger, moment_ms
from runner.calendar.exclusions import MAX_DATES, MAX_ENTRIES, Dates, Named, entry, exclusions
from runner.calendar.trigger import MAX_INSTANTS, MAX_TRIGGERS
from runner.checkpoint.ops import AnyOf, At, Cron, Every, NamedDates, TriggerSpec
from runner.management.bodies import CalendarBody, ScheduleBody, TriggerBody
from runner.management.policies import BadPolicy

MAX_CARRIED: Final = 50_000
"""Dates that the schedules of one apply may carry, since each keeps those of the calendars that it names."""
SHOWN_CHARS: Final = 60

T = TypeVar("T")
Keys = tuple[str | int, ...]
Simple = Cron | Every | At


class BadCalendar(ValueError):
    """A named calendar that cannot be meant: its place in the list, the path in it, and what is wrong there."""

    def __init__(self, index: int, keys: Keys, words: str) -> None:
        """Keep all three."""
        super().__init__(words)
        self.index = index
        self.keys = keys


class Calendars:
    """The named calendars of one apply, and how much of them its schedules have taken so far."""

    def __init__(self) -> None:
        self._named: dict[str, NamedDates] = {}
        self._dates: dict[str, tuple[Dates, ...]] = {}
        self._carried = 0

    @classmethod
    def of(cls, bodies: Iterable[CalendarBody]) -> Self:
        """Return all of them, checked; raises as `add`."""
        found = cls()
        for i, body in enumerate(bodies):
            found.add(i, body)
        return found

    def add(self, index: int, body: CalendarBody) -> None:
        """Take one more, which stands at `index` of its list.

        Raises:
            BadCalendar: its name stands twice, something in it is no date or range of dates, or there is too much.
        """
        if body.name in self._named:
            raise BadCalendar(index, ("name",), "it stands twice; remove or rename one")
        if len(body.dates) > MAX_DATES:
            words = f"{len(body.dates)} dates and ranges are too many; at most {MAX_DATES} is right: join neighbours"
            raise BadCalendar(index, ("dates",), words)
        self._dates[body.name] = tuple(_date(index, i, text) for i, text in enumerate(body.dates))
        self._named[body.name] = NamedDates(body.name, body.dates)

    def dates(self, names: Iterable[str]) -> dict[str, tuple[Dates, ...]]:
        """Return what some of them hold."""
        return {name: self._dates[name] for name in names}

    def take(self, name: str, keys: Keys) -> NamedDates:
        """Return a calendar that a schedule is to carry.

        Raises:
            BadPolicy: there is none of this name, or the schedules carry too much with it.
        """
        found = self._named.get(name)
        if found is None:
            near = get_close_matches(name[:SHOWN_CHARS], sorted(self._named), n=1)
            right = f"did you mean {near[0]!r}?" if near else "define it beside the schedules, with its dates"
            raise BadPolicy(keys, f"there is no calendar {name[:SHOWN_CHARS]!r}; {right}")
        self._carried += len(found.dates)
        if self._carried > MAX_CARRIED:
            words = f"with calendar {name!r} the schedules carry more than {MAX_CARRIED} dates in all, the most in one apply"
            raise BadPolicy(keys, f"{words}; split it, or join neighbouring dates into ranges")
        return found


def trigger_of(body: ScheduleBody) -> TriggerSpec:
    """Return the trigger, checked in its time zone.

    Raises:
        BadPolicy: it cannot be meant.
    """
    stated = [key for key in ("cron", "every_s", "at", "triggers") if getattr(body, key) is not None]
    if len(stated) != 1:
        raise BadPolicy((), "write exactly one of cron, every and at, or several triggers")
    if body.triggers is None:
        return _simple(TriggerBody(body.cron, body.every_s, body.at), body.timezone, ())
    if not 1 <= len(body.triggers) <= MAX_TRIGGERS:
        raise BadPolicy(("triggers",), f"{len(body.triggers)} triggers are out of range; 1 to {MAX_TRIGGERS} is right")
    count = sum(len(each.at) for each in body.triggers if isinstance(each.at, tuple))
    if count > MAX_INSTANTS:
        words = f"{count} instants in all are too many; at most {MAX_INSTANTS} is right: make two schedules of it"
        raise BadPolicy(("triggers",), words)
    parts = tuple(_simple(each, body.timezone, ("triggers", i)) for i, each in enumerate(body.triggers))
    return parts[0] if len(parts) == 1 else AnyOf(parts)


def span_of(body: ScheduleBody) -> tuple[int | None, int | None]:
    """Return the first and the last instant at which anything is planned, milliseconds since the epoch; None for no bound.

    Raises:
        BadPolicy: one is no instant, or they are the wrong way round.
    """
    start_ms, end_ms = (
        None if text is None else _instant(text, body.timezone, (key,), key)
        for key, text in (("start", body.start), ("end", body.end))
    )
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        raise BadPolicy(("end",), f"end {body.end!r} is before start {body.start!r}; swap them, or leave one out")
    return start_ms, end_ms


def excluded_of(body: ScheduleBody, calendars: Calendars) -> tuple[NamedDates, ...]:
    """Return the calendars that a schedule's exclusions name, each once, all of it checked.

    Raises:
        BadPolicy: an entry is none, names a calendar that is not there, or there is too much of them.
    """
    if len(body.exclude) > MAX_ENTRIES:
        words = f"{len(body.exclude)} entries are too many; at most {MAX_ENTRIES} is right: put dates into a calendar"
        raise BadPolicy(("exclude",), words)
    entries = [_meant(("exclude", i), partial(entry, text)) for i, text in enumerate(body.exclude)]
    taken: dict[str, NamedDates] = {}
    for i, each in enumerate(entries):
        if isinstance(each, Named) and each.name not in taken:
            taken[each.name] = calendars.take(each.name, ("exclude", i))
    _meant(("exclude",), partial(exclusions, entries, calendars.dates(taken)))
    return tuple(taken.values())


def _simple(body: TriggerBody, timezone: str, within: Keys) -> Simple:
    match (body.cron, body.every_s, body.at):
        case (str(expression), None, None):
            return _checked(Cron(expression), timezone, (*within, "cron"))
        case (None, int(interval_s), None):
            return _checked(Every(interval_s), timezone, (*within, "every_s"))
        case (None, None, str(text)):
            return _checked(At((_instant(text, timezone, (*within, "at"), "at"),)), timezone, (*within, "at"))
        case (None, None, tuple(texts)):
            return _checked(At(_instants(texts, timezone, (*within, "at"))), timezone, (*within, "at"))
        case _:
            raise BadPolicy(within, "write exactly one of cron, every and at")


def _checked(trigger: Simple, timezone: str, keys: Keys) -> Simple:
    _meant(keys, partial(check_trigger, trigger, timezone))
    return trigger


def _instants(texts: tuple[str, ...], timezone: str, keys: Keys) -> tuple[int, ...]:
    """Return named instants in order, each once."""
    if not 1 <= len(texts) <= MAX_INSTANTS:
        raise BadPolicy(keys, f"{len(texts)} instants are out of range; 1 to {MAX_INSTANTS} is right")
    found: dict[int, str] = {}
    for i, text in enumerate(texts):
        at_ms = _instant(text, timezone, (*keys, i), "at")
        if at_ms in found:
            raise BadPolicy((*keys, i), f"at {text!r} is the same instant as {found[at_ms]!r}; remove one")
        found[at_ms] = text
    return tuple(sorted(found))


def _instant(text: str, timezone: str, keys: Keys, called: str) -> int:
    try:
        return moment_ms(text, timezone)
    except BadExpression as fault:
        where = ("timezone",) if fault.key == "timezone" else keys
        words = str(fault)
        raise BadPolicy(where, words if fault.key == "timezone" else called + words.removeprefix("at")) from fault


def _date(index: int, place: int, text: str) -> Dates:
    try:
        found = entry(text)
    except BadExpression as fault:
        raise BadCalendar(index, ("dates", place), str(fault).removeprefix("exclude ")) from fault
    if not isinstance(found, Dates):
        words = f"{text[:SHOWN_CHARS]!r} is no date; a calendar holds 2026-12-25 and 2026-12-24..2027-01-01"
        raise BadCalendar(index, ("dates", place), words)
    return found


def _meant(keys: Keys, check: Callable[[], T]) -> T:
    """Return what a check of the calendar returns; what it refuses stands at a path of the body."""
    try:
        return check()
    except BadExpression as fault:
        raise BadPolicy(("timezone",) if fault.key == "timezone" else keys, str(fault)) from fault
