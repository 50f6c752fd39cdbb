"""What must hold in every state (DESIGN section 8), judged by what engines saw and who was told what.

The checkpoint's own rows are read for what it claims; whether a claim is true is never asked of it.
"""

from collections.abc import Iterator
from itertools import chain, pairwise

from runner.checkpoint.attempt_words import NOT_CONSUMED
from runner.checkpoint.records import Attempt, AttemptState, Run, RunState
from runner.checkpoint.run import TERMINAL
from tests.search.book import Look
from tests.search.bounds import Bounds
from tests.search.notes import Notes
from tests.search.state import State, Task
from tests.search.strangers import let_in
from tests.search.world import World
from worker.ledger_row import RowState

A, R = AttemptState, RunState
OVER = (A.SUCCEEDED, A.FAILED, A.CANCELLED, A.NOT_LAUNCHED, A.QUIESCED)
BUSY = (R.ACTIVE, R.UNKNOWN, R.CANCELLING)
MAY_RUN = "ia"

Judged = tuple[str, list[tuple[int, Attempt]], list[tuple[Run, list[int]]]]


def wrong(world: World, s: State) -> str:
    """Return the first thing that is wrong in a state, or an empty text."""
    found, attempts, runs = world.once(("judged", s.book), lambda: _judged(world, s))
    if found:
        return found
    for at, attempt in attempts:
        if found := next(_attempt(world.notes, attempt, s.tasks[at]), ""):
            return found
    for run, places in runs:
        if found := next(_run(run, [s.tasks[at] for at in places]), ""):
            return found
    return next(_side_by_side(attempts, s, world.bounds), "")


def _judged(world: World, s: State) -> Judged:
    """Return what can be said of the checkpoint's rows alone, and what is asked about the rest of the state."""
    look = world.look(s)
    places = {run_id: [world.places[run_id, each.n] for each in look.attempts[run_id]] for run_id in look.runs}
    by_run = (_in_order(run, look.attempts[run.run_id], world.bounds) for run in look.runs.values())
    found = next(chain(*by_run, _held(look), _instants(look, world.instants), let_in(world.book, s.book)), "")
    return found, list(world.attempts(s)), [(run, places[run_id]) for run_id, run in look.runs.items()]


def _in_order(run: Run, attempts: list[Attempt], bounds: Bounds) -> Iterator[str]:
    """Yield what does not fit between a run and its attempts."""
    for attempt, _ in pairwise(attempts):
        over = attempt.state in {A.FAILED, A.NOT_LAUNCHED} or attempt.n <= run.reopened_after
        if not (over or (attempt.superseded and bounds.webhook)):
            yield f"invariant 4: a next attempt exists although {attempt.n} is {attempt.state.value}"
    since = [attempt for attempt in attempts if attempt.n > run.reopened_after]
    failed = [attempt for attempt in since[:-1] if attempt.state is A.FAILED and attempt.reason != NOT_CONSUMED]
    if len(failed) >= bounds.allowed:
        yield f"invariant 4: a next attempt exists after {len(failed)} confirmed failures"
    open_ones = [attempt for attempt in attempts if attempt.state not in OVER]
    attested = any(each.state is A.QUIESCED for each in attempts if each.n > run.reopened_after)
    if run.state in BUSY and not open_ones:
        yield f"invariant 11: run {run.state.value} with nothing open: no row leads on"
    if run.state in TERMINAL and any(not each.superseded for each in open_ones):
        yield f"promise 2: run {run.state.value} while an attempt of it is {open_ones[0].state.value}"
    if run.state in {R.SKIPPED, R.CANCELLED} and open_ones:
        yield f"invariant 6: run {run.state.value} while an attempt of it is {open_ones[0].state.value}"
    if run.state is R.FAILED and not run.cancelled and (attested or open_ones):
        yield "promise 2: run Failed although what became of an earlier attempt is not known"
    if run.state is R.QUIESCED and any(each.state is A.SUCCEEDED for each in attempts):
        yield "promise 2: run Quiesced although an attempt succeeded"


def _held(look: Look) -> Iterator[str]:
    """Yield what is wrong with the slot of the schedule and with the capacity that is counted as held."""
    waiting = [run.run_id for run in look.runs.values() if run.state is R.PENDING and not run.beside]
    busy = [run.run_id for run in look.runs.values() if run.state in BUSY and not run.beside]
    if look.slot is not None and look.slot not in waiting + busy:
        yield "invariant 11: the slot is held by a run that is over"
    if any(run_id != look.slot for run_id in busy):
        yield "invariant 7: a run that may be at work does not hold its schedule's slot"
    if look.slot is None and waiting:
        yield "invariant 11: the slot is free and a run waits in line"
    holding = [each for attempts in look.attempts.values() for each in attempts if each.state not in OVER]
    if look.held != sum(not each.superseded for each in holding):
        yield "invariant 7: what may be at work is not counted in its pool"


def _instants(look: Look, planned: list[int]) -> Iterator[str]:
    for instant_ms in planned:
        times = sum(run.scheduled_for_ms == instant_ms for run in look.runs.values())
        times += sum(skip.first_ms <= instant_ms <= skip.last_ms for skip in look.skips)
        if times != (instant_ms <= look.watermark_ms):
            yield f"invariant 5: an instant is on record {times} times"


def _attempt(notes: Notes, attempt: Attempt, task: Task) -> Iterator[str]:
    """Yield what the checkpoint says of an attempt against what engine, ledger and listeners know of it."""
    state, launched = attempt.state, task.submissions > 0
    given_back = attempt.reason == NOT_CONSUMED
    if task.submissions > 1:
        yield "invariant 2: submitted twice"
    if task.permits and (state is A.NOT_LAUNCHED or attempt.fenced):
        yield "invariant 3: a permit and a fence for one attempt"
    if launched and not task.permits:
        yield "invariant 1: submitted without a permit"
    if launched and (state is A.NOT_LAUNCHED or given_back):
        yield f"promise 2: {state.value} {attempt.reason}, but it was submitted"
    if state is A.SUCCEEDED and task.engine != "S":
        yield "promise 2: Succeeded without the engine's word"
    if state is A.FAILED and not given_back and task.engine not in "FR":
        yield "promise 2: Failed without the engine's word"
    if state in {A.CANCELLED, A.NOT_LAUNCHED, A.FAILED} and (task.engine in MAY_RUN or _may_start(notes, task)):
        yield f"invariant 6: {state.value} while its work is alive or can start"


def _may_start(notes: Notes, task: Task) -> bool:
    """Return whether a submission may still come: consumed, not yet submitted, and by a process that lives."""
    row = notes.row(task)
    return task.hand == "launching" and task.submissions == 0 and row.state is RowState.CONSUMED


def _run(run: Run, tasks: list[Task]) -> Iterator[str]:
    if run.state is R.CANCELLED and any(task.engine in MAY_RUN for task in tasks):
        yield "invariant 6: run Cancelled while its work is alive or can start"
    if run.state is R.SKIPPED and any(task.submissions for task in tasks):
        yield "promise 2: Skipped although it was launched"


def _side_by_side(attempts: list[tuple[int, Attempt]], s: State, bounds: Bounds) -> Iterator[str]:
    """Yield breaches of overlap and capacity, by what engines have alive; attested and superseded work is excepted."""
    working: dict[str, int] = {}
    for at, attempt in attempts:
        if s.tasks[at].engine == "a" and not (attempt.superseded or attempt.state is A.QUIESCED):
            working[attempt.run_id] = working.get(attempt.run_id, 0) + 1
    if any(count > 1 for count in working.values()):
        yield "invariant 7: two attempts of one run are alive side by side"
    if len(working) > bounds.concurrent:
        yield f"invariant 7: {len(working)} runs of one schedule are alive side by side"
    if sum(working.values()) > bounds.capacity:
        yield "invariant 7: more is alive than the pool allows"


def good(world: World, s: State) -> bool:
    """Return whether nothing is left to be done: liveness asks that such a state can always be reached."""
    workers = any(each.alive and not each.closing for each in s.lives)
    done = world.once(("done", s.book, workers), lambda: (_done(world, world.look(s), workers),))[0]
    return done and all(_answered(world, s, task) for task in s.tasks)


def _done(world: World, look: Look, workers: bool) -> bool:
    if look.watermark_ms < world.instants[-1]:
        return False
    beyond = any(len(look.attempts[run_id]) == world.bounds.attempts for run_id in look.claimable)
    return all(
        _at_rest(run, look.attempts[run.run_id])
        # It waits for a worker, or for more attempts than this walk follows, or behind a run that does.
        or (run.state is R.PENDING and (beyond or not workers))
        for run in look.runs.values()
    )


def _at_rest(run: Run, attempts: list[Attempt]) -> bool:
    if run.state in TERMINAL:
        return True
    doubtful = [attempt for attempt in attempts if attempt.state not in OVER]
    if run.state is R.UNKNOWN:
        return any(attempt.state is A.UNKNOWN for attempt in doubtful)
    if run.state is R.CANCELLING:
        return bool(doubtful) and all(each.state is A.UNKNOWN or each.unresolved for each in doubtful)
    return False


def _answered(world: World, s: State, task: Task) -> bool:
    row = world.notes.row(task)
    if row is None or row.answer is not None:
        return True
    whose = (row.binding.worker, row.binding.ledger)
    return not any(each.alive and (each.worker, each.ledger) == whose for each in s.lives)
