"""The instant of a one-shot as a person writes it: RFC 3339 with an offset, or a wall clock's reading in a time zone."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from runner.calendar.expression import BadExpression
from runner.calendar.instants import LAST_S
from runner.calendar.zones import SHOWN_CHARS, zone

_FORM: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?(?P<offset>[Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_RIGHT: Final = (
    "write 2026-12-01T10:00:00Z, 2026-12-01T10:00:00+02:00, or 2026-12-01T10:00:00 for the schedule's timezone"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment_ms(text: str, timezone: str) -> int:
    """Return the instant that a text names, milliseconds since the epoch, UTC.

    Args:
        timezone: IANA zone in which a text without an offset is read.

    Raises:
        BadExpression: it is no such text, lies outside the years 1970 to 9995, or is a reading that the zone's clock
            never shows or shows twice; the text is one line for a person.
    """
    where = zone(timezone)
    shown = repr(text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…")
    form = _FORM.fullmatch(text)
    try:
        stated = datetime.fromisoformat(text.upper()) if form else None
    except ValueError:
        stated = None
    if form is None or stated is None:
        raise BadExpression("at", f"at {shown} is not an instant; {_RIGHT}")
    if form["offset"] is None:
        stated = _placed(stated, where, timezone, shown)
    at_ms = (stated - _EPOCH) // timedelta(milliseconds=1)
    if not 0 <= at_ms < LAST_S * 1000:
        raise BadExpression("at", f"at {shown} lies outside the years 1970 to 9995")
    return at_ms


def _placed(reading: datetime, where: ZoneInfo, timezone: str, shown: str) -> datetime:
    """Return the one instant at which the zone's clock shows a reading."""
    passes = [reading.replace(tzinfo=where, fold=fold) for fold in (0, 1)]
    try:
        instants = sorted({each.astimezone(UTC) for each in passes})
    except OverflowError as fault:
        raise BadExpression("at", f"at {shown} lies outside the years 1970 to 9995") from fault
    shows = [each for each in instants if each.astimezone(where).replace(tzinfo=None) == reading]
    if len(shows) == 1:
        return shows[0]
    what = "comes twice" if shows else "is jumped over"
    offsets = " or ".join(each.astimezone(where).isoformat() for each in instants)
    raise BadExpression("at", f"at {shown} {what} when the clock of {timezone} is changed; write {offsets}")
