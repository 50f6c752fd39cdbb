"""What operators and recovery staff do, and what fails: each of it as often as the budget says."""

from collections.abc import Iterator

from runner.checkpoint import ops
from runner.checkpoint.records import AttemptState
from tests.search.book import OPERATOR, RECOVERY
from tests.search.canonical import FAR_MS
from tests.search.owner import proposals
from tests.search.state import NONE, State, Task
from tests.search.world import FAULT, NOBODY, PERSON, Step, World, in_hand_of, life, life_of


def steps(world: World, s: State) -> Iterator[Step]:
    """Yield acts and faults."""
    yield from _cancels(world, s)
    yield from _attests(world, s)
    yield from _freezes(world, s)
    yield from _lives(world, s)
    yield from _owners(world, s)
    yield from _restores(world, s)


def _cancels(world: World, s: State) -> Iterator[Step]:
    left = s.spend("cancel")
    for n, run_id in enumerate(world.look(s).runs if left else (), 1):
        after, change, wrong = world.commit(left, world.book.numbered.number(ops.CancelOp(OPERATOR, run_id)))
        if change.book != s.book:
            yield Step(("an operator cancels run %s", n), FAULT, after, wrong)
    again = s.spend("redeliver")
    for n, run_id in enumerate(world.look(s).runs if again else (), 1):
        after, change, wrong = world.commit(again, world.book.numbered.number(ops.Redeliver(OPERATOR, run_id, FAR_MS)))
        if change.book != s.book:
            yield Step(("an operator redelivers run %s", n), FAULT, after, wrong)


def _attests(world: World, s: State) -> Iterator[Step]:
    left = s.spend("attest")
    if left is None:
        return
    for at, attempt in world.attempts(s):
        if attempt.state not in {AttemptState.UNKNOWN, AttemptState.CANCELLING}:
            continue
        op = ops.AttestOp(RECOVERY, attempt.run_id, attempt.n, "Rita", "gone", "ticket 7", attempt.revision)
        after, change, wrong = world.commit(left, world.book.numbered.number(op))
        if change.book != s.book:
            i = life_of(s, attempt.incarnation)
            if i != NOBODY:
                after = after.with_life(i, after.lives[i]._replace(attested=True))
            yield Step(("recovery staff attest %s", world.name(at)), PERSON, after, wrong)


def _freezes(world: World, s: State) -> Iterator[Step]:
    changed = s if s.frozen else s.spend("freeze")
    if changed is None:
        return
    after, change, wrong = world.commit(changed, world.book.numbered.number(ops.SetFrozen(OPERATOR, not s.frozen)))
    if change.result.kind == "done":
        words = "an operator ends the freeze" if s.frozen else "an operator freezes"
        yield Step((words,), PERSON if s.frozen else FAULT, after._replace(frozen=not s.frozen), wrong)


def _lives(world: World, s: State) -> Iterator[Step]:
    for i, who in enumerate(s.lives):
        if who.alive and (left := s.spend("crash")) is not None:
            yield Step(("%s is killed", who.incarnation), FAULT, _dead(world, left, i))
        if who.alive and who.closing and not _busy(world, s, i):
            yield Step(("%s ends", who.incarnation), FAULT, _dead(world, s, i))
        if who.alive and not who.closing and (left := s.spend("drain")) is not None:
            yield Step(("%s is told to drain", who.incarnation), FAULT, left.with_life(i, who._replace(closing=True)))
    if len(s.lives) >= world.bounds.lives + world.bounds.workers - 1:
        return
    for worker in sorted({each.worker for each in s.lives}):
        yield from _starts(world, s, worker)


def _starts(world: World, s: State, worker: str) -> Iterator[Step]:
    mine = [each for each in s.lives if each.worker == worker]
    fresh = f"{worker}-disk{len({each.ledger for each in mine}) + 1}"
    if any(each.alive for each in mine):
        if (left := s.spend("clone")) is not None:
            new = life(worker, fresh, 1, s.lives)
            words = ("a second host runs under the name %s as %s", worker, new.incarnation)
            yield Step(words, FAULT, left._replace(lives=(*s.lives, new)))
        return
    new = life(worker, mine[-1].ledger, mine[-1].number + 1, s.lives)
    tasks = tuple(
        world.notes.settled(task, new.incarnation) if task.row and _ledger(world, task) == new.ledger else task
        for task in s.tasks
    )
    yield Step(
        ("%s starts again as %s", worker, new.incarnation), FAULT, s._replace(lives=(*s.lives, new), tasks=tasks)
    )
    if (left := s.spend("wipe")) is not None:
        new = life(worker, fresh, 1, s.lives)
        words = ("%s starts with a wiped ledger as %s", worker, new.incarnation)
        yield Step(words, FAULT, left._replace(lives=(*s.lives, new)))


def _ledger(world: World, task: Task) -> str:
    return world.notes.row(task).binding.ledger


def _dead(world: World, s: State, i: int) -> State:
    """A process dies: what only its memory held is gone; the work it started may live on."""
    who = s.lives[i]
    tasks = tuple(task._replace(hand="") if in_hand_of(world.notes, task, who) else task for task in s.tasks)
    return s.with_life(i, who._replace(alive=False))._replace(tasks=tasks)


def _busy(world: World, s: State, i: int) -> bool:
    return any(in_hand_of(world.notes, task, s.lives[i]) for task in s.tasks)


def _owners(world: World, s: State) -> Iterator[Step]:
    left = s.spend("takeover")
    if left is not None:
        after, _, wrong = world.commit(left, world.book.numbered.number(ops.Acquire("n2")))
        after = after._replace(heard=(NOBODY,) * len(s.heard), flight=s.flight and s.flight._replace(asked=()))
        yield Step(("another voter takes over",), FAULT, after, wrong)
        if (flying := after.spend("stale")) is not None:
            for said, _, op in proposals(world, s):
                number = world.book.numbered.number(op)
                if world.book.apply(s.book, number).book != s.book:
                    words = ("another voter takes over; the old owner has in flight: " + str(said[0]), *said[1:])
                    yield Step(words, FAULT, flying._replace(stale=number), wrong)
    if s.stale != NONE:
        changed = world.book.changes_although_late(s.book, s.stale)
        wrong = "invariant 9: a proposal of a replaced owner changed something" if changed else ""
        yield Step(("the old owner's proposal arrives",), FAULT, s._replace(stale=NONE), wrong)


def _restores(world: World, s: State) -> Iterator[Step]:
    """A backup is taken, and some time later all voters are gone: the image becomes the next generation."""
    left = s.spend("restore")
    if left is None:
        return
    if s.image == NONE:
        yield Step(("a backup is taken",), FAULT, s._replace(image=s.book))
        return
    change = world.book.apply(s.image, world.book.numbered.number(ops.Restore(OPERATOR)))
    look = world.book.look(change.book)
    lives = tuple(each._replace(attested=(each.worker, each.incarnation) in look.retired) for each in s.lives)
    after = left._replace(book=change.book, lives=lives, frozen=look.head.frozen, image=NONE)
    after = after._replace(heard=(NOBODY,) * len(s.heard), stale=NONE, flight=None)
    later = look.head.generation > world.book.look(s.image).head.generation
    wrong = change.wrong or ("" if later else "rule: a restore begins no later generation")
    yield Step(("the backup is restored",), FAULT, after, wrong)
