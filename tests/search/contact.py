"""What an owner has heard, put into the product's own records, and what its deadlines make of that."""

from collections.abc import Callable, Mapping

from runner.checkpoint import ops
from runner.checkpoint.records import Attempt
from runner.contacts import Ask, AttemptKey, Contact
from runner.deadlines import overdue, watch
from runner.settings import Timing
from tests.search.state import State
from tests.search.world import NOBODY
from worker.protocol import Held

TIMING = Timing()
POLL, LATER = 1, 2
"""Numbers of a worker's messages: of its poll, and of what it sent after that."""

ContactOf = Callable[[str], Contact | None]
NO_ASKS: Mapping[AttemptKey, Ask] = {}


def given_up(
    attempts: list[Attempt],
    contact_of: ContactOf,
    served_s: float,
    *,
    epoch: int = 1,
    asks: Mapping[AttemptKey, Ask] = NO_ASKS,
) -> list[ops.FenceOp | ops.LoseOp]:
    """Return what `deadlines.overdue` proposes after so much served time."""
    watches = watch({}, attempts, 0.0)
    return overdue(attempts, watches, asks, contact_of, epoch=epoch, served_s=served_s, timing=TIMING)


def contacts(s: State, heard_s: float) -> ContactOf:
    """Return the contacts of an owner whose workers last polled at one instant; what they list is not looked at."""

    def contact_of(worker: str) -> Contact | None:
        for i in s.heard:
            if i != NOBODY and s.lives[i].worker == worker:
                return contact(s, i, {}, complete=False, heard_s=heard_s)
        return None

    return contact_of


def contact(
    s: State, i: int, held: Mapping[AttemptKey, Held], *, complete: bool, heard_s: float, epoch: int = 1
) -> Contact:
    """Return the owner's memory of one poll of a life."""
    who = s.lives[i]
    return Contact(
        worker=who.worker,
        pools=None,
        namespaces=None,
        incarnation=who.incarnation,
        ledger=who.ledger,
        life=who.number,
        number=POLL,
        epoch=epoch,
        slots=1,
        held=held,
        complete=complete,
        served_s=heard_s,
        mono_s=0.0,
    )
