"""What an owner has heard, put into the product's own records, and what its deadlines make of that."""

from collections.abc import Callable, Mapping

from runner.checkpoint import ops
from runner.checkpoint.records import Attempt
from runner.claims import rooms
from runner.contacts import Ask, AttemptKey, Contact
from runner.deadlines import overdue, watch
from runner.settings import Timing
from tests.search.state import Life, Listed, State
from tests.search.world import NOBODY, World, in_hand_of
from worker.protocol import Held

TIMING = Timing()
SLOTS = 1
"""Of each worker."""
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


def listed(world: World, s: State, i: int) -> Listed:
    """Return what the ledger of a life lists now, and whether this very life has it in hand."""
    key = ("listed", s.lives[i], tuple((task.row, task.hand) for task in s.tasks))
    return world.once(key, lambda: _listed(world, s, s.lives[i]))


def _listed(world: World, s: State, who: Life) -> Listed:
    found = []
    for at, task in enumerate(s.tasks):
        if task.row:
            row = world.notes.row(task)
            held = world.notes.held(task, who.incarnation)
            if held is not None and (row.binding.worker, row.binding.ledger) == (who.worker, who.ledger):
                found.append((at, held, in_hand_of(world.notes, task, who)))
    return tuple(found)


def with_room(world: World, s: State) -> tuple[int, ...]:
    """Return the lives that `claims.rooms` offers work to, as they have just polled."""
    polled = tuple((i, listed(world, s, i)) for i in s.heard if i != NOBODY and s.lives[i].alive)
    return world.once(("room", s.book, s.lives, polled), lambda: _with_room(world, s, polled))


def _with_room(world: World, s: State, polled: tuple[tuple[int, Listed], ...]) -> tuple[int, ...]:
    look = world.look(s)
    known = []
    for i, lists in polled:
        held = {world.key(at): each for at, each, _ in lists}
        free = 0 if s.lives[i].closing else SLOTS - sum(mine for _, _, mine in lists)
        known.append(contact(s, i, held, complete=True, heard_s=0.0, slots=max(free, 0)))
    found = rooms(known, look.open, look.retired, served_s=0.0, poll_s=TIMING.poll_s)
    names = {room.contact.incarnation for room in found}
    return tuple(i for i, _ in polled if s.lives[i].incarnation in names)


def contacts(s: State, heard_s: float) -> ContactOf:
    """Return the contacts of an owner whose workers last polled at one instant; what they list is not looked at."""

    def contact_of(worker: str) -> Contact | None:
        for i in s.heard:
            if i != NOBODY and s.lives[i].worker == worker:
                return contact(s, i, {}, complete=False, heard_s=heard_s)
        return None

    return contact_of


def contact(
    s: State,
    i: int,
    held: Mapping[AttemptKey, Held],
    *,
    complete: bool,
    heard_s: float,
    epoch: int = 1,
    slots: int = SLOTS,
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
        slots=slots,
        held=held,
        complete=complete,
        served_s=heard_s,
        mono_s=0.0,
    )
