"""Whether workers fell silent one by one, or so many at once that the owner itself is the likelier cause. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from runner.checkpoint.records import Attempt, AttemptState
from runner.claims import FRESH_POLLS
from runner.contacts import Contact
from runner.settings import Timing

AT_LEAST: Final = 2
"""Workers that fall silent together; one alone is taken for its own fault."""


def fell_together(contacts: Iterable[Contact], attempts: Sequence[Attempt], *, served_s: float, timing: Timing) -> bool:
    """Return whether leadership should move rather than that work is lost for its workers' silence.

    True once a worker is to be lost, if with it more than half of all workers have fallen silent, two at least: each
    polled this owner and has missed two polls since. The workers are those that polled lately or have work.

    An owner that never heard them cannot find that they *fell* silent. So the next owner, whether it came by such a
    move or by any other way, loses those that do not come back to it, and leadership does not go round in circles.

    Args:
        attempts: the open ones.
        served_s: the owner's served time.
    """
    heard = {contact.worker: served_s - contact.served_s for contact in contacts}
    at_work = {attempt.worker for attempt in attempts if _can_be_lost(attempt)}
    lately = {worker for worker, silent_s in heard.items() if silent_s < 2 * timing.contact_s}
    missing_s = min(FRESH_POLLS * timing.poll_s, timing.contact_s)
    fallen = {worker for worker in at_work | lately if heard.get(worker, 0.0) >= missing_s}
    is_due = any(heard[worker] >= timing.contact_s for worker in fallen & at_work)
    return is_due and len(fallen) >= AT_LEAST and 2 * len(fallen) > len(at_work | lately)


def _can_be_lost(attempt: Attempt) -> bool:
    match attempt.state:
        case AttemptState.ADMITTED | AttemptState.ACCEPTED:
            return True
        case AttemptState.CANCELLING:
            return not attempt.unresolved
        case _:
            return False
