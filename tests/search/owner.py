"""What the owner proposes by itself: the calendar, claims, closing instants and deadlines, in any order and late."""

from collections.abc import Iterator

from runner.checkpoint import ops
from runner.checkpoint.records import Attempt, RunState
from runner.checkpoint.run import TERMINAL
from tests.search.book import SCHEDULE
from tests.search.canonical import NOW_MS
from tests.search.contact import TIMING, contacts, given_up, with_room
from tests.search.state import State
from tests.search.world import FAULT, NOBODY, ONWARD, Step, World, host_of

Proposal = tuple[tuple[object, ...], str, ops.Op]


def steps(world: World, s: State) -> Iterator[Step]:
    """Yield what the owner may commit now, and what time and polls do."""
    for said, kind, book, wrong in world.once(
        (s.book, s.heard, s.lives, s.frozen, with_room(world, s)), lambda: _effects(world, s)
    ):
        yield Step(said, kind, s._replace(book=book), wrong)


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
    lost = look.head.restored_ms is not None and batch[-1] <= look.head.restored_ms
    gap = ops.Missed(batch[0], batch[-1], len(batch), "restored")
    op = ops.Materialise(
        schedule_id=SCHEDULE,
        schedule_revision=look.definition_revision,
        after_ms=look.watermark_ms,
        until_ms=batch[-1],
        missed=(gap,) if lost else (),
        due=() if lost else batch,
    )
    yield ("the calendar: %s due", "both are" if len(batch) > 1 else "one instant is"), ONWARD, op


def _claims(world: World, s: State) -> Iterator[Proposal]:
    look = world.look(s)
    for run_id in look.claimable:
        n = len(look.attempts[run_id]) + 1
        if n > world.bounds.attempts:
            continue
        for i in _claimers(world, s, look.attempts):
            who = s.lives[i]
            said = ("%s is claimed for %s", world.name(world.places[run_id, n]), who.incarnation)
            yield said, ONWARD, ops.ClaimOp(run_id, n, who.worker, who.incarnation, who.ledger, ("default",))


def _claimers(world: World, s: State, attempts: dict[str, list[Attempt]]) -> list[int]:
    """Return the lives that claims may go to; of workers that have done nothing yet, one stands for all."""
    used = {attempt.worker for each in attempts.values() for attempt in each}
    found, fresh = [], False
    for i in with_room(world, s):
        is_fresh = s.lives[i].worker not in used and s.lives[i].number == 1
        if not (is_fresh and fresh):
            found.append(i)
        fresh = fresh or is_fresh
    return found


def _deadlines(world: World, s: State, attempts: list[Attempt]) -> Iterator[Proposal]:
    """Yield what `deadlines.overdue` proposes once each of its waits is over."""
    seen = set()
    for waited_s, heard_s in ((TIMING.claim_s, 0.0), (TIMING.contact_s, 0.0), (_STOP_S, _STOP_S)):
        contact_of = contacts(s, heard_s)
        for op in given_up(attempts, contact_of, waited_s):
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


def _time_passes(world: World, s: State) -> Iterator[tuple[tuple[object, ...], str, int, str]]:
    for run_id, run in world.look(s).runs.items():
        closing_ms = world.book.closing_ms(s.book, run_id)
        if run.state in TERMINAL or closing_ms is None or closing_ms <= NOW_MS:
            continue
        kind = ONWARD if run.state is RunState.PENDING else FAULT
        said = ("the closing instant of run %s passes", _run(world, run_id))
        yield said, kind, world.book.past_closing(s.book, run_id), ""


def _run(world: World, run_id: str) -> int:
    return world.run_ids.index(run_id) + 1
