"""Instants as a schedule's own clock shows them."""

from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def local_text(at_ms: int, where: ZoneInfo) -> str:
    """Return an instant, milliseconds since the epoch, on a zone's clock: ISO 8601 with offset."""
    timespec = "milliseconds" if at_ms % 1000 else "seconds"
    whole = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    return whole.astimezone(where).isoformat(timespec=timespec)


def comes_twice(at_ms: int, where: ZoneInfo) -> bool:
    """Return whether the clock shows the reading of an instant, milliseconds since the epoch, a second time."""
    local = datetime.fromtimestamp(at_ms // 1000, where)
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


def is_second_pass(at_ms: int, where: ZoneInfo) -> bool:
    """Return whether the clock shows the reading of an instant, milliseconds since the epoch, for the second time."""
    return datetime.fromtimestamp(at_ms // 1000, where).fold == 1


def reading_text(reading_s: int) -> str:
    """Return a reading of a clock, seconds since 1970-01-01T00:00 on it, as `2026-03-29 02:30`."""
    reading = _EPOCH + timedelta(seconds=reading_s)
    return reading.strftime("%Y-%m-%d %H:%M:%S" if reading.second else "%Y-%m-%d %H:%M")
