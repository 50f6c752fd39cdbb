"""How much later than planned an occurrence may start, spread so that schedules do not all begin at once.

A pure function of the schedule and the instant: the same on whichever voter drives, however often it is asked. It moves
the start alone; the occurrence keeps its planned instant as its name.
"""

import hashlib
from typing import Final

from runner.calendar.faults import BadExpression
from runner.ids import occurrence_text

LONGEST_MS: Final = 86_400_000


def check_jitter(longest_ms: int) -> None:
    """Return if a length of jitter can be meant.

    Raises:
        BadExpression: it is out of range.
    """
    if not 0 <= longest_ms <= LONGEST_MS:
        raise BadExpression("jitter", f"jitter of {longest_ms} ms is out of range; write 0 s to 24 h")


def start_ms(schedule_id: str, scheduled_for_ms: int, longest_ms: int, *, next_ms: int | None, window_ms: int) -> int:
    """Return when an occurrence may start, milliseconds since the epoch, UTC.

    Never before its instant, nor more than `longest_ms` after it, nor as late as the next occurrence, nor past the
    catch-up window. Where one of these is nearer than `longest_ms`, starts spread over the time that there is.

    Args:
        schedule_id: lower-case UUID of the schedule.
        scheduled_for_ms: the planned instant, milliseconds since the epoch, UTC.
        longest_ms: the schedule's jitter, milliseconds; 0 for none.
        next_ms: the planned instant that follows, if there is one.
        window_ms: how late an occurrence may start at most, milliseconds.
    """
    room_ms = min(longest_ms, window_ms)
    if next_ms is not None:
        room_ms = min(room_ms, next_ms - scheduled_for_ms - 1)
    return scheduled_for_ms + _draw(schedule_id, scheduled_for_ms) % (max(0, room_ms) + 1)


def _draw(schedule_id: str, scheduled_for_ms: int) -> int:
    """Return a number that is the occurrence's own: 256 bits, so that the remainder by any length is even enough."""
    text = f"jitter/{schedule_id}/{occurrence_text(scheduled_for_ms)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
