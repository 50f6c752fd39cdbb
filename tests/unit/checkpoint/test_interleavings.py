"""Walks every interleaving of both tables together, within small bounds, and looks for what must never be."""

from collections import deque
from dataclasses import replace
from functools import cache

import pytest

from runner.checkpoint import attempt_words as words
from runner.checkpoint import run as runs
from runner.checkpoint.attempt import DEFINITE, holds_capacity
from runner.checkpoint.attempt import step as attempt_step
from runner.checkpoint.records import Attempt, AttemptState, RunState
from runner.checkpoint.run import TERMINAL, Case, conclude, step
from tests.unit.checkpoint import pairs

CLOSES_MS = 1_000
INSTANTS = (0, CLOSES_MS)  # before and after the closing instant
A = AttemptState

SAID: tuple[words.Command, ...] = (
    pairs.admit(),
    words.Fence(why="claim_deadline", worker=None),
    pairs.accept(),
    pairs.finish(),
    pairs.finish(succeeded=False),
    pairs.stopped(),
    pairs.forfeit(),
    pairs.forfeit(incarnation="b"),
    pairs.lose("worker_out_of_contact", None),
    pairs.attest(),
)
RUN_COMMANDS: tuple[runs.Command, ...] = (
    runs.Cancel(),
    runs.Close(),
    runs.Displace(),
    runs.Restore(run_id="r", pool="default", digest="d", generation=2),
    runs.Reopen(deadline_ms=CLOSES_MS),
)


def successors(case: Case, most: int) -> set[Case]:
    found = set()
    state = conclude(case).state
    full = len(case.attempts) >= most
    for command in RUN_COMMANDS:
        if not (full and isinstance(command, runs.Restore)):
            found.add(forgotten(step(case, command, now_ms=0)[0]))
    for attempt in case.attempts:
        for moved in became(attempt, state):
            found.update(forgotten(step(case, runs.Settle(moved), now_ms=now_ms)[0]) for now_ms in INSTANTS)
    n = len(case.attempts) + 1
    is_open = any(holds_capacity(attempt) for attempt in case.attempts)
    facts = words.Facts(run_state=state, next_n=n, attempt_open=is_open)
    claimed, _ = attempt_step(None, pairs.claim(n), facts, now_ms=0)
    if claimed is not None and not full:
        found.add(forgotten(step(case, runs.Start(claimed), now_ms=0)[0]))
    return found


@cache
def became(attempt: Attempt, run_state: RunState) -> tuple[Attempt, ...]:
    """Return what one command may make of an attempt, words and instants aside."""
    facts = words.Facts(run_state=run_state)
    moved = (attempt_step(attempt, said, facts, now_ms=0)[0] for said in SAID)
    return tuple({_bare(each): None for each in moved if each is not None and _bare(each) != attempt})


def forgotten(case: Case) -> Case:
    """Return the case without words and instants, which lead nowhere."""
    return replace(case, attempts=tuple(_bare(attempt) for attempt in case.attempts))


@cache
def _bare(attempt: Attempt) -> Attempt:
    bare = replace(attempt, evidence="", tail="", claimed_ms=0, admitted_ms=None, ended_ms=None, started_ms=None)
    reason = attempt.reason if attempt.reason == words.NOT_CONSUMED else None
    return replace(bare, cancelling_ms=None, exit_code=None, reason=reason, execution_id=None)


def check(case: Case) -> None:
    standing, attempts = conclude(case), case.attempts
    uncertain = [a for a in attempts if a.state not in {*DEFINITE, A.QUIESCED, A.CLAIMED}]
    assert all(a.token is None or not a.fenced for a in attempts), "3: a permit and a fence"
    assert sum(holds_capacity(a) for a in attempts) <= 1, "7: two attempts of one run side by side"
    for a in attempts[:-1]:
        fine = a.state in {A.FAILED, A.NOT_LAUNCHED} or a.superseded or a.n <= case.reopened_after
        assert fine, "4: a next attempt after one that is not over"
    assert [a.n for a in attempts] == list(range(1, len(attempts) + 1))
    if standing.state in {RunState.CANCELLED, RunState.SKIPPED}:
        assert not uncertain, "6: work may be alive"
    if standing.state in {RunState.FAILED, RunState.QUIESCED}:
        assert not uncertain, "2: more definite than its evidence"
    if standing.state is RunState.SKIPPED:
        assert all(a.fenced or a.reason == words.NOT_CONSUMED for a in attempts), "2: skipped, but maybe launched"
    if standing.state in {RunState.UNKNOWN, RunState.CANCELLING}:
        assert uncertain, "11: nothing leads on from here"
    if standing.state in TERMINAL:
        assert not any(holds_capacity(a) for a in attempts), "7: capacity kept for ever"


def _moves_on(before: Case, after: Case) -> bool:
    """A terminal run never changes, but for a redelivery."""
    was, now = conclude(before).state, conclude(after).state
    reopened = (was, now) == (RunState.FAILED, RunState.PENDING) and after.reopened_after == len(before.attempts)
    return was not in TERMINAL or now is was or reopened


@pytest.mark.parametrize(
    ("start", "most"),
    [
        (Case(closes_ms=CLOSES_MS, attempts_allowed=2), 3),
        (Case(closes_ms=CLOSES_MS, on_unknown="retry", deadline_ms=CLOSES_MS), 2),
    ],
    ids=["hold", "retry"],
)
def test_no_interleaving_breaks_an_invariant(start: Case, most: int) -> None:
    seen, waiting = {start}, deque([start])
    while waiting:
        case = waiting.popleft()
        check(case)
        for after in successors(case, most):
            assert _moves_on(case, after), (case, after)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    assert len(seen) > 100
    assert {conclude(case).state for case in seen} == set(RunState)
