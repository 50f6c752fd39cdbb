"""What the owner proposes by itself: the calendar, claims, closing instants and deadlines, in any order and late."""

from collections.abc import Callable, Iterator

from runner.checkpoint import ops
from runner.checkpoint.records import Attempt, RunState
from runner.checkpoint.run import TERMINAL
from runner.contacts import Contact, Contacts, IncarnationRefused
from runner.deadlines import overdue, watch
from runner.settings import Timing
from tests.search.book import NOW_MS, SCHEDULE
from tests.search.state import State
from tests.search.world import FAULT, NOBODY, ONWARD, Step, World, host_of
from worker.protocol import VERSION, Held, Poll

TIMING = Timing()
Proposal = tuple[tuple[object, ...], str, ops.Op]


def steps(world: World, s: State) -> Iterator[Step]:
    """Yield what the owner may commit now, and what time and polls do."""
    for said, kind, book, wrong in world.once((s.book, s.heard, s.lives, s.frozen), lambda: _effects(world, s)):
        yield Step(said, kind, s._replace(book=book), wrong)
    yield from _polls(world, s)


def _effects(world: World, s: State) -> list[tuple[tuple[object, ...], str, int, str]]:
    found = []
    for said, kind, op in proposals(world, s):
        after, change, wrong = world.commit(s, world.book.numbered.number(op))
        if change.book != s.book:
            found.append((said, kind, after.book, wrong))
    return [*found, *_time_passes(world, s)]


def proposals(world: World, s: State) -> Iterator[Proposal]:
    """Yield the operations that an owner may propose by itself in a state."""
    yield from _calendar(world, s)
    look = world.look(s)
    for run_id in look.closing:
        yield ("run %s is closed", _run(world, run_id)), ONWARD, ops.CloseOp(run_id)
    yield from _claims(world, s)
    if look.open:
        yield from _deadlines(world, s, look.open)


def _calendar(world: World, s: State) -> Iterator[Proposal]:
    look = world.look(s)
    due = [ms for ms in world.instants if ms > look.watermark_ms]
    if not due:
        return
    batch = tuple(due) if world.bounds.batch else (due[0],)
    op = ops.Materialise(
        schedule_id=SCHEDULE,
        schedule_revision=look.definition_revision,
        after_ms=look.watermark_ms,
        until_ms=batch[-1],
        missed=(),
        due=batch,
    )
    yield ("the calendar: %s due", "both are" if len(batch) > 1 else "one instant is"), ONWARD, op


def _claims(world: World, s: State) -> Iterator[Proposal]:
    look = world.look(s)
    for run_id in look.claimable:
        n = len(look.attempts[run_id]) + 1
        if n > world.bounds.attempts:
            continue
        for i in _claimers(s, look.attempts):
            who = s.lives[i]
            said = ("%s is claimed for %s", world.name(world.places[run_id, n]), who.incarnation)
            yield said, ONWARD, ops.ClaimOp(run_id, n, who.worker, who.incarnation, who.ledger, ("default",))


def _claimers(s: State, attempts: dict[str, list[Attempt]]) -> list[int]:
    """Return the lives that claims may go to; of workers that have done nothing yet, one stands for all."""
    used = {attempt.worker for each in attempts.values() for attempt in each}
    found, fresh = [], False
    for i in s.heard:
        if i == NOBODY or s.lives[i].closing or not s.lives[i].alive:
            continue
        is_fresh = s.lives[i].worker not in used and s.lives[i].number == 1
        if not (is_fresh and fresh):
            found.append(i)
        fresh = fresh or is_fresh
    return found


def _deadlines(world: World, s: State, attempts: list[Attempt]) -> Iterator[Proposal]:
    """Yield what `deadlines.overdue` proposes once each of its waits is over."""
    seen = set()
    for waited_s, heard_s in ((TIMING.claim_s, 0.0), (TIMING.contact_s, 0.0), (_STOP_S, _STOP_S)):
        contact_of = _contacts(s, heard_s)
        for op in _overdue(attempts, contact_of, waited_s):
            if op in seen:
                continue
            seen.add(op)
            at = world.places[op.run_id, op.attempt]
            attempt = world.attempt(s, at)
            host = host_of(s, attempt.worker, attempt.ledger) != NOBODY
            unfair = isinstance(op, ops.LoseOp) and host and waited_s == TIMING.contact_s
            doing = "fenced" if isinstance(op, ops.FenceOp) else "given up"
            yield ("%s is %s: %s", world.name(at), doing, op.why), FAULT if unfair else ONWARD, op


_STOP_S = TIMING.stop_grace_s + TIMING.stop_deadline_s


def _overdue(
    attempts: list[Attempt], contact_of: Callable[[str], Contact | None], served_s: float
) -> list[ops.FenceOp | ops.LoseOp]:
    watches = watch({}, attempts, 0.0)
    return overdue(attempts, watches, {}, contact_of, epoch=1, served_s=served_s, timing=TIMING)


def _contacts(s: State, heard_s: float) -> Callable[[str], Contact | None]:
    """Return the contacts of an owner whose workers last polled at one instant, their lists not yet read."""

    def contact_of(worker: str) -> Contact | None:
        for i in s.heard:
            if i != NOBODY and s.lives[i].worker == worker:
                return _contact(s, i, {}, complete=False, heard_s=heard_s)
        return None

    return contact_of


def _contact(s: State, i: int, held: dict[tuple[str, int], Held], *, complete: bool, heard_s: float) -> Contact:
    who = s.lives[i]
    return Contact(
        worker=who.worker,
        pools=None,
        namespaces=None,
        incarnation=who.incarnation,
        ledger=who.ledger,
        life=who.number,
        number=1,
        epoch=1,
        slots=1,
        held=held,
        complete=complete,
        served_s=heard_s,
        mono_s=0.0,
    )


def _time_passes(world: World, s: State) -> Iterator[tuple[tuple[object, ...], str, int, str]]:
    for run_id, run in world.look(s).runs.items():
        closing_ms = world.book.closing_ms(s.book, run_id)
        if run.state in TERMINAL or closing_ms is None or closing_ms <= NOW_MS:
            continue
        kind = ONWARD if run.state is RunState.PENDING else FAULT
        said = ("the closing instant of run %s passes", _run(world, run_id))
        yield said, kind, world.book.past_closing(s.book, run_id), ""


def _polls(world: World, s: State) -> Iterator[Step]:
    """Yield polls: who is heard, and what the owner makes of what they list."""
    for i, who in enumerate(s.lives):
        if not who.alive:
            continue
        heard = world.once(("heard", s.heard, s.lives, i), lambda i=i: (_hear(s, i),))[0]
        if heard is None:
            continue
        polled = s if heard == s.heard else s._replace(heard=heard)
        if not who.closing and world.book.listing(s.book, who.worker, who.incarnation).retired:
            polled = polled.with_life(i, who._replace(closing=True))
        held = _held(world, s, i)
        found = world.once(
            ("polled", s.book, heard, s.lives, i, held), lambda i=i, held=held: _given_up(world, s, i, held)
        )
        if not found and polled is not s:
            yield Step(("%s polls", who.incarnation), ONWARD, polled)
        for said, book, wrong in found:
            yield Step(said, ONWARD, polled._replace(book=book), wrong)


Listed = tuple[tuple[int, Held, bool], ...]


def _given_up(world: World, s: State, i: int, held: Listed) -> list[tuple[tuple[object, ...], int, str]]:
    """Return what the owner gives up once it has heard this life's poll."""
    found = []
    for op in _overdue(world.look(s).open, _listed(world, s, i, held), 0.0):
        _, change, wrong = world.commit(s, world.book.numbered.number(op))
        at = world.places[op.run_id, op.attempt]
        said = ("%s polls; %s is given up: %s", s.lives[i].incarnation, world.name(at), op.why)
        busy = isinstance(op, ops.LoseOp) and any(place == at and in_hand for place, _, in_hand in held)
        needless = "section 4: lost although the worker that holds it has just said so" if busy else ""
        if change.book != s.book:
            found.append((said, change.book, wrong or needless))
    return found


def _held(world: World, s: State, i: int) -> Listed:
    """Return what the ledger of a life lists, and whether this very life has it in hand."""
    who = s.lives[i]
    found = []
    for at, task in enumerate(s.tasks):
        if task.row:
            row = world.notes.row(task)
            listed = world.notes.held(task, who.incarnation)
            if listed is not None and (row.binding.worker, row.binding.ledger) == (who.worker, who.ledger):
                found.append((at, listed, row.binding.incarnation == who.incarnation and bool(task.hand)))
    return tuple(found)


def _hear(s: State, i: int) -> tuple[int, ...] | None:
    """Return who is heard once this life's poll was taken in, or None if it is refused."""
    who = s.lives[i]
    slot = next(w for w, worker in enumerate(_workers(s)) if worker == who.worker)
    contacts = Contacts()
    before = s.heard[slot]
    if before == i:
        return s.heard
    if before != NOBODY:
        contacts.hear(who.worker, None, None, _poll(s, before), served_s=0.0, mono_s=0.0, contact_s=TIMING.contact_s)
    # A life that is still in contact is heard again before long; one that is dead falls silent.
    served_s = 0.0 if before != NOBODY and s.lives[before].alive else TIMING.contact_s
    try:
        contacts.hear(who.worker, None, None, _poll(s, i), served_s=served_s, mono_s=0.0, contact_s=TIMING.contact_s)
    except IncarnationRefused:
        return None
    return (*s.heard[:slot], i, *s.heard[slot + 1 :])


def _workers(s: State) -> list[str]:
    return sorted({each.worker for each in s.lives})


def _poll(s: State, i: int) -> Poll:
    who = s.lives[i]
    return Poll(VERSION, who.incarnation, who.ledger, who.number, number=1, epoch=1, slots=1, held=[])


def _listed(world: World, s: State, i: int, held: Listed) -> Callable[[str], Contact | None]:
    """Return the contacts of an owner that has just heard this life, and nobody else lately."""
    listed = {world.key(at): each for at, each, _ in held}
    contact = _contact(s, i, listed, complete=True, heard_s=0.0)
    others = _contacts(s, 0.0)
    return lambda worker: contact if worker == contact.worker else others(worker)


def _run(world: World, run_id: str) -> int:
    return world.run_ids.index(run_id) + 1
