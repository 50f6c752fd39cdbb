"""Polls: who is heard, and what the owner makes of what a poll lists, at once or when it arrives late."""

from collections.abc import Iterator

from runner.checkpoint import ops
from runner.contacts import Ask, Contacts, IncarnationRefused
from tests.search.contact import LATER, TIMING, ContactOf, contact, contacts, given_up, listed
from tests.search.state import Flight, State
from tests.search.world import FAULT, NOBODY, ONWARD, Step, World
from worker.ledger_row import Fence, RowState
from worker.protocol import VERSION, Poll

NEEDLESS = "section 4: lost although the life that polled has it in hand"


def steps(world: World, s: State) -> Iterator[Step]:
    """Yield polls that arrive at once, one that is sent and stays on its way, and its arrival."""
    for i, who in enumerate(s.lives):
        if not who.alive:
            continue
        now = Flight(i, listed(world, s, i), world.look(s).head.epoch)
        yield from _arrives(world, s, now, "%s polls", ONWARD)
        if world.bounds.late_polls and s.flight is None:
            yield Step(("%s sends a poll, which is long on its way", who.incarnation), FAULT, s._replace(flight=now))
    if s.flight is not None:
        yield Step(("the poll is lost",), FAULT, s._replace(flight=None))
        yield from _arrives(world, s._replace(flight=None), s.flight, "the poll of %s arrives late", FAULT)


def _arrives(world: World, s: State, flight: Flight, words: str, kind: str) -> Iterator[Step]:
    i, who = flight.life, s.lives[flight.life]
    heard = world.once(("heard", s.heard, s.lives, i), lambda: (_hear(s, i),))[0]
    if heard is None:
        return
    polled = s if heard == s.heard else s._replace(heard=heard)
    if who.alive and not who.closing and world.book.listing(s.book, who.worker, who.incarnation).retired:
        polled = polled.with_life(i, who._replace(closing=True))
    generation = world.look(s).head.generation
    if who.alive and generation > who.generation:
        polled = _adopts(world, polled, i, generation)
    # What it has in hand now tells whether it is wrong to give it up: not what it had when the poll was sent.
    in_hand = tuple(at for at, _, mine in listed(world, s, i) if mine)
    key = ("polled", s.book, heard, s.lives, flight, in_hand)
    found = world.once(key, lambda: _given_up(world, s, flight, in_hand))
    if not found and (polled is not s or kind == FAULT):
        yield Step((words, who.incarnation), kind, polled)
    for said, book, wrong in found:
        yield Step((words + said[0], who.incarnation, *said[1:]), kind, polled._replace(book=book), wrong)


def _adopts(world: World, s: State, i: int, generation: int) -> State:
    """A reply names a later generation: it is kept, and what was reserved before is fenced, in one commit."""
    tasks = list(s.tasks)
    for at, _, _ in listed(world, s, i):
        row = world.notes.row(tasks[at])
        if row.state is RowState.RESERVED and row.binding.generation < generation:
            tasks[at] = world.notes.step(tasks[at], Fence("the checkpoint was restored"))[0]._replace(hand="")
    return s.with_life(i, s.lives[i]._replace(generation=generation))._replace(tasks=tuple(tasks))


def _given_up(world: World, s: State, flight: Flight, in_hand: tuple[int, ...]) -> list[tuple[tuple, int, str]]:
    """Return what the owner gives up once it has heard a poll."""
    look = world.look(s)
    asks = {world.key(at): Ask(s.lives[flight.life].incarnation, LATER, 0.0) for at in flight.asked}
    found = []
    for op in given_up(look.open, _contacts(world, s, flight), 0.0, epoch=look.head.epoch, asks=asks):
        _, change, wrong = world.commit(s, world.book.numbered.number(op))
        at = world.places[op.run_id, op.attempt]
        needless = NEEDLESS if isinstance(op, ops.LoseOp) and at in in_hand else ""
        if change.book != s.book:
            found.append((("; %s is given up: %s", world.name(at), op.why), change.book, wrong or needless))
    return found


def _contacts(world: World, s: State, flight: Flight) -> ContactOf:
    """Return the contacts of an owner that has just heard this poll, and nobody else lately."""
    held = {world.key(at): each for at, each, _ in flight.listed}
    this = contact(s, flight.life, held, complete=True, heard_s=0.0, epoch=flight.epoch)
    others = contacts(s, 0.0)
    return lambda worker: this if worker == this.worker else others(worker)


def _hear(s: State, i: int) -> tuple[int, ...] | None:
    """Return who is heard once this life's poll was taken in, or None if it is refused."""
    who = s.lives[i]
    slot = sorted({each.worker for each in s.lives}).index(who.worker)
    before = s.heard[slot]
    if before == i:
        return s.heard
    known = Contacts()
    if before != NOBODY:
        known.hear(who.worker, None, None, _poll(s, before), served_s=0.0, mono_s=0.0, contact_s=TIMING.contact_s)
    # A life that is still in contact is heard again before long; one that is dead falls silent.
    served_s = 0.0 if before != NOBODY and s.lives[before].alive else TIMING.contact_s
    try:
        known.hear(who.worker, None, None, _poll(s, i), served_s=served_s, mono_s=0.0, contact_s=TIMING.contact_s)
    except IncarnationRefused:
        return None
    return (*s.heard[:slot], i, *s.heard[slot + 1 :])


def _poll(s: State, i: int) -> Poll:
    who = s.lives[i]
    return Poll(VERSION, who.incarnation, who.ledger, who.number, number=1, epoch=1, slots=1, held=[])
