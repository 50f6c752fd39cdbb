"""What workers and engines do, one durable write, one call or one message at a time; a process may die between any two.

The ledger's table says what may become of a row and `worker.words` what is said of it; here stands only the order of
calls in `worker.invocation`, `worker.service` and `worker.reporting`.
"""

from collections.abc import Iterator

from runner.checkpoint.results import OpResult
from tests.search.notes import refused
from tests.search.state import NONE, State, Task
from tests.search.world import FAULT, NOBODY, ONWARD, Step, World, host_of, life_of
from worker.ledger_row import Consume, End, Fence, KeepReceipt, LedgerRow, Lose, NoteStop, Reserve
from worker.outcome import Outcome, Receipt
from worker.protocol import PermitRequest
from worker.words import NOT_YET

LIMIT_S = 60.0
SUCCEEDED = Outcome(succeeded=True, reason=None, exit_code=0, ended_ms=0)
FAILED = Outcome(succeeded=False, reason="exit", exit_code=1, ended_ms=0)
STOPPED = Outcome(succeeded=False, reason="exit", exit_code=-15, ended_ms=0)
REFUSED = Outcome(succeeded=False, reason="refused", exit_code=None, ended_ms=0)
ENDS = {"S": SUCCEEDED, "F": FAILED, "X": STOPPED}


def steps(world: World, s: State) -> Iterator[Step]:
    """Yield the steps of workers and engines."""
    yield from _reserves(world, s)
    yield from _stops(world, s)
    for at, task in enumerate(s.tasks):
        if task.row == NONE and task.said == NONE:
            continue
        if task.hand == "asking":
            moves = _with_permit(world, s, at)
        elif task.hand == "launching":
            moves = _launches(world, task)
        elif task.hand == "watching":
            moves = _watches(world, s, task)
        else:
            moves = iter(())
        for words, kind, changed in (*moves, *_engine(task, world.bounds.ends)):
            yield Step((words + " (%s)", world.name(at)), kind, s.with_task(at, changed))
        yield from _words_arrive(world, s, at)


Move = tuple[str, str, Task]


def _reserves(world: World, s: State) -> Iterator[Step]:
    """A reply lists an open claim: it is noted durably before anything is asked."""
    for i, who in enumerate(s.lives):
        if not who.alive or who.closing:
            continue
        for claim in world.book.listing(s.book, who.worker, who.incarnation).claims:
            at = world.places[claim.binding.run_id, claim.binding.attempt]
            task = s.tasks[at]
            if claim.binding.generation != who.generation:
                continue
            changed, decision = world.notes.step(task, Reserve(claim.binding, f"x-{who.incarnation}"))
            if not refused(decision):
                said = ("%s reserves %s", s.lives[i].incarnation, world.name(at))
                yield Step(said, ONWARD, s.with_task(at, changed._replace(hand="asking")))


def _stops(world: World, s: State) -> Iterator[Step]:
    """A reply lists a stop: it is noted, and the work is asked to end; never between consume and receipt."""
    for i, who in enumerate(s.lives):
        if not who.alive or i not in s.heard:
            continue
        for stop in world.book.listing(s.book, who.worker, who.incarnation).stops:
            at = world.places[stop.run_id, stop.attempt]
            task = s.tasks[at]
            changed = _stopped(world, task, who.incarnation, who.ledger, at)
            if changed is not None and changed != task:
                yield Step(
                    ("%s hears of the stop of %s", who.incarnation, world.name(at)), ONWARD, s.with_task(at, changed)
                )


def _stopped(world: World, task: Task, incarnation: str, ledger: str, at: int) -> Task | None:
    row: LedgerRow | None = world.notes.row(task)
    if row is None or row.binding.ledger != ledger:
        word = world.notes.rowless(*world.key(at), incarnation, ledger)
        return task._replace(said=world.notes.add(task.said, (word,)))
    if task.hand == "launching":
        return None
    changed, decision = world.notes.step(task, NoteStop())
    if refused(decision):
        return task
    return changed._replace(hand="" if task.hand == "asking" else task.hand, stopping=task.hand == "watching")


def _with_permit(world: World, s: State, at: int) -> Iterator[Move]:
    """It waits for its permit: consumes the grant, or gives up."""
    task = s.tasks[at]
    row: LedgerRow = world.notes.row(task)
    incarnation = row.binding.incarnation
    if (incarnation, row.reservation) in task.permits:
        yield "its grant is heard: consume", ONWARD, _consumed(world, task, incarnation, waited_s=0.0)
        if world.bounds.expiry:
            yield "its grant is heard too late", FAULT, _consumed(world, task, incarnation, waited_s=LIMIT_S + 1)
    closing = s.lives[life_of(s, incarnation)].closing
    if world.bounds.expiry or closing:
        fenced = world.notes.step(task, Fence("no permit was seen in time"))[0]
        words = "the worker drains: fence locally" if closing else "no permit was seen in time: fence locally"
        yield words, ONWARD if closing else FAULT, fenced._replace(hand="")


def _consumed(world: World, task: Task, incarnation: str, *, waited_s: float) -> Task:
    changed, decision = world.notes.step(task, Consume(incarnation, 1, waited_s, LIMIT_S))
    if not refused(decision):
        return changed._replace(hand="launching")
    return world.notes.step(task, Fence("its grant was dropped", permit_known=True))[0]._replace(hand="")


def _launches(world: World, task: Task) -> Iterator[Move]:
    """It holds its lock: submit, then keep the receipt."""
    notes = world.notes
    if task.submissions == 0 or task.engine == "-":
        count = task.submissions + 1
        if world.bounds.remote:
            yield "submit", ONWARD, task._replace(engine="i", submissions=count)
        else:
            yield "submit: the engine accepts", ONWARD, task._replace(engine="a", submissions=count)
        if "R" in world.bounds.ends and not world.bounds.remote:
            yield "submit: the engine refuses", ONWARD, task._replace(engine="R", submissions=count)
        return
    if task.engine in "aSFX":
        kept = notes.step(task, KeepReceipt(Receipt("e1", 0)))[0]
        yield "the engine has accepted: keep the receipt", ONWARD, kept._replace(hand="watching")
    if task.engine == "R":
        yield "the engine has refused: note it", ONWARD, notes.step(task, End(REFUSED))[0]._replace(hand="")
    if task.engine in "iL" or world.bounds.remote:
        kind = ONWARD if task.engine == "L" else FAULT
        yield "no answer from the engine: lost", kind, notes.step(task, Lose("submission_unknown"))[0]._replace(hand="")


def _watches(world: World, s: State, task: Task) -> Iterator[Move]:
    notes = world.notes
    row: LedgerRow = notes.row(task)
    if s.lives[host_of(s, row.binding.worker, row.binding.ledger)].closing:
        fenced, decision = notes.step(task, Fence("the worker is stopping"))
        if not refused(decision):
            yield "the worker drains: fence locally", ONWARD, fenced
    if task.engine in ENDS:
        yield "its end is seen and noted", ONWARD, notes.step(task, End(ENDS[task.engine]))[0]._replace(hand="")
    elif task.engine == "a":
        kind = ONWARD if task.stopping else FAULT
        yield "its end cannot be proved: lost", kind, notes.step(task, Lose("outcome_unknown"))[0]._replace(hand="")


def _engine(task: Task, ends: str) -> Iterator[Move]:
    if task.engine == "i":
        yield "the engine accepts", ONWARD, task._replace(engine="a")
        if "R" in ends:
            yield "the engine refuses", ONWARD, task._replace(engine="R")
        yield "the request to the engine is lost", FAULT, task._replace(engine="L")
    if task.engine == "a":
        if "S" in ends:
            yield "the work succeeds", ONWARD, task._replace(engine="S")
        if "F" in ends:
            yield "the work fails", ONWARD, task._replace(engine="F")
        if task.stopping:
            yield "the work is stopped", ONWARD, task._replace(engine="X")


def _words_arrive(world: World, s: State, at: int) -> Iterator[Step]:
    """Any word that was ever said arrives at the owner; the answer is heard, or lost."""
    notes, task = world.notes, s.tasks[at]
    current = notes.says(task.row)
    for word in notes.each(task):
        letter = notes.letter(word)
        living = host_of(s, letter.worker, letter.ledger) != NOBODY
        is_current = word in current
        if not (is_current or world.bounds.late_words or task.row == NONE):
            continue
        after, change, wrong = world.commit(s, letter.op)
        if s.flight is not None and letter.name == "ask":
            after = _noted(s, after, at)
        if after is s and not (living and is_current):
            continue
        kind = ONWARD if living and (is_current or task.row == NONE) else FAULT
        words = ("the %s of %s arrives: %s", letter.name, world.name(at), _told(change.result))
        if after is not s or wrong:
            yield Step(words, kind, after, wrong)
        if living and is_current:
            before = after.tasks[at]
            heard = _hears(world, before, word, change.result)
            if heard != before:
                yield Step((words[0] + ", and it is told", *words[1:]), kind, after.with_task(at, heard), wrong)


def _noted(s: State, after: State, at: int) -> State:
    """The owner notes the number of an ask: a row that the poll on its way does not list was reserved after it."""
    flight = s.flight
    if at in flight.asked or any(place == at for place, _, _ in flight.listed):
        return after
    return after._replace(flight=flight._replace(asked=(*flight.asked, at)))


def _hears(world: World, task: Task, word: int, result: OpResult) -> Task:
    notes = world.notes
    answer = notes.answer(word, result)
    if not isinstance(notes.words[word], PermitRequest):
        return notes.hears(task, word, answer)
    if task.hand != "asking" or answer.kind == "granted" or answer.reason in NOT_YET:
        return task  # a grant may be heard at any later time: `_with_permit`
    return notes.step(task, Fence("its permit was refused"))[0]._replace(hand="")


def _told(result: OpResult) -> str:
    return f"{result.kind}{' ' + result.reason if result.reason else ''}"
