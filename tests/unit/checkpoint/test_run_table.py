"""Every row of DESIGN's run table, and every (state, command) pair."""

from dataclasses import replace
from typing import Any

import pytest

from runner.checkpoint import attempt_words as words
from runner.checkpoint import run as runs
from runner.checkpoint.attempt import TERMINAL as ATTEMPT_TERMINAL
from runner.checkpoint.attempt import step as attempt_step
from runner.checkpoint.records import Attempt, AttemptState, RunState
from runner.checkpoint.run import COMMANDS, MOVES, Case, Standing, closing_ms, conclude, step
from tests.unit.checkpoint import pairs

A = AttemptState
R = RunState
CLOSES_MS = 3_600_000


def failed(n: int = 1) -> Attempt:
    return pairs.in_state(A.FAILED, n)


def forfeited(n: int = 1) -> Attempt:
    return pairs.after(pairs.admit(), pairs.forfeit(), n=n)


def won(n: int = 1, *, succeeded: bool = True) -> Attempt:
    return pairs.after(pairs.admit(), words.Cancel(), pairs.finish(succeeded=succeeded), n=n)


def attested_superseded(n: int = 1) -> Attempt:
    return replace(pairs.in_state(A.QUIESCED, n), superseded=True)


def case(*attempts: Attempt, **changes: Any) -> Case:
    return Case(**{"attempts": attempts, "closes_ms": CLOSES_MS, **changes})


def webhook(*attempts: Attempt, **changes: Any) -> Case:
    return case(*attempts, **{"on_unknown": "retry", "deadline_ms": 24 * CLOSES_MS, **changes})


def moved(before: Case, command: runs.Command, now_ms: int = 0) -> tuple[Case, Standing]:
    after, standing = step(before, command, now_ms=now_ms)
    assert standing is not None, "refused"
    return after, standing


def settled(before: Case, command: words.Command, n: int = 1, now_ms: int = 0) -> tuple[Case, Standing]:
    """Move one attempt and settle its run."""
    attempt, _ = attempt_step(before.attempts[n - 1], command, words.Facts(), now_ms=now_ms)
    assert attempt is not None
    return moved(before, runs.Settle(attempt), now_ms)


RESTORE = runs.Restore(run_id="r", pool="default", digest="d", generation=2)
UNKNOWN = pairs.in_state(A.UNKNOWN)
ADMITTED = pairs.in_state(A.ADMITTED)

STANDINGS = [
    (case(), R.PENDING, None),
    (case(given_up="overlap"), R.SKIPPED, "overlap"),
    (case(pairs.in_state(A.CLAIMED)), R.ACTIVE, None),
    (case(ADMITTED), R.ACTIVE, None),
    (case(pairs.in_state(A.ACCEPTED)), R.ACTIVE, None),
    (case(pairs.in_state(A.NOT_LAUNCHED)), R.PENDING, None),
    (case(forfeited()), R.PENDING, None),
    (case(failed()), R.FAILED, "exit"),
    (case(failed(), attempts_allowed=2), R.PENDING, None),
    (case(failed(), failed(2), attempts_allowed=2), R.FAILED, "exit"),
    (case(forfeited(), failed(2), attempts_allowed=2), R.PENDING, None),
    (case(pairs.in_state(A.SUCCEEDED)), R.SUCCEEDED, None),
    (case(UNKNOWN), R.UNKNOWN, "worker_out_of_contact"),
    (case(pairs.in_state(A.QUIESCED)), R.QUIESCED, None),
    # A later failure does not hide what an earlier attempt leaves open.
    (webhook(pairs.superseded()), R.PENDING, None),
    (webhook(pairs.superseded(), failed(2)), R.UNKNOWN, "worker_out_of_contact"),
    (webhook(attested_superseded(), failed(2)), R.QUIESCED, None),
    (webhook(pairs.superseded(), pairs.in_state(A.SUCCEEDED, 2)), R.SUCCEEDED, None),
    # Closed while Pending.
    (case(given_up="missed_window"), R.SKIPPED, "missed_window"),
    (case(pairs.in_state(A.NOT_LAUNCHED), given_up="missed_window"), R.SKIPPED, "missed_window"),
    (case(forfeited(), given_up="missed_window"), R.SKIPPED, "missed_window"),
    (webhook(failed(), attempts_allowed=2, given_up="missed_window"), R.FAILED, "exit"),
    (webhook(pairs.superseded(), given_up="missed_window"), R.UNKNOWN, "worker_out_of_contact"),
    (webhook(attested_superseded(), given_up="missed_window"), R.QUIESCED, None),
    # Cancelled.
    (case(cancelled=True), R.CANCELLED, None),
    (case(failed(), cancelled=True), R.CANCELLED, None),
    (case(pairs.in_state(A.NOT_LAUNCHED), cancelled=True), R.CANCELLED, None),
    (case(pairs.in_state(A.CANCELLING), cancelled=True), R.CANCELLING, None),
    (case(pairs.in_state(A.CANCELLED), cancelled=True), R.CANCELLED, None),
    (case(pairs.in_state(A.QUIESCED), cancelled=True), R.QUIESCED, None),
    (case(won(), cancelled=True), R.SUCCEEDED, None),
    (case(won(succeeded=False), cancelled=True), R.FAILED, "exit"),
    (webhook(attested_superseded(), won(2), cancelled=True), R.SUCCEEDED, None),
    (webhook(attested_superseded(), won(2, succeeded=False), cancelled=True), R.QUIESCED, None),
    (webhook(won(succeeded=False), reopened_after=1, cancelled=True), R.CANCELLED, None),
]


@pytest.mark.parametrize(("stands", "state", "reason"), STANDINGS)
def test_a_state_is_a_function_of_attempts_and_decisions(stands: Case, state: R, reason: str | None) -> None:
    assert conclude(stands) == Standing(state, reason)


def test_pending_claim_active() -> None:
    assert moved(case(), runs.Start(pairs.in_state(A.CLAIMED)))[1].state is R.ACTIVE


@pytest.mark.parametrize("attempts", [(), (failed(),), (pairs.in_state(A.NOT_LAUNCHED),)])
def test_pending_cancel_with_every_attempt_definite(attempts: tuple[Attempt, ...]) -> None:
    assert moved(case(*attempts, attempts_allowed=2), runs.Cancel())[1].state is R.CANCELLED


def test_pending_cancel_with_an_uncertain_attempt_asks_that_one_to_stop() -> None:
    after, standing = moved(webhook(pairs.superseded()), runs.Cancel())
    assert standing.state is R.CANCELLING
    assert (after.attempts[0].state, after.attempts[0].unresolved) == (A.CANCELLING, True)


def test_active_cancel_fences_what_has_no_permit() -> None:
    after, standing = moved(case(pairs.in_state(A.CLAIMED)), runs.Cancel())
    assert (standing.state, after.attempts[0].state) == (R.CANCELLED, A.NOT_LAUNCHED)


def test_active_cancel_reaches_every_uncertain_attempt() -> None:
    second = pairs.in_state(A.ACCEPTED, 2)
    after, standing = moved(webhook(pairs.superseded(), second), runs.Cancel())
    assert standing.state is R.CANCELLING
    assert [attempt.state for attempt in after.attempts] == [A.CANCELLING, A.CANCELLING]
    after, standing = settled(after, pairs.stopped(), n=2)
    assert standing.state is R.CANCELLING, "the superseded one may still be alive"
    assert settled(after, pairs.attest())[1].state is R.QUIESCED


def test_unknown_cancel_then_completion_won() -> None:
    cancelling, standing = moved(case(UNKNOWN), runs.Cancel())
    assert standing.state is R.CANCELLING
    assert settled(cancelling, pairs.finish())[1].state is R.SUCCEEDED
    assert settled(cancelling, pairs.stopped())[1].state is R.CANCELLED
    assert settled(cancelling, pairs.attest())[1].state is R.QUIESCED


def test_no_retry_follows_a_cancelled_run() -> None:
    cancelling, _ = moved(case(ADMITTED, attempts_allowed=5), runs.Cancel())
    assert settled(cancelling, pairs.finish(succeeded=False))[1] == Standing(R.FAILED, "exit")


def test_closing_instant() -> None:
    assert closing_ms(case()) == CLOSES_MS
    assert closing_ms(case(pairs.in_state(A.NOT_LAUNCHED), forfeited(2))) == CLOSES_MS
    assert closing_ms(case(failed())) is None
    assert closing_ms(webhook()) == CLOSES_MS
    assert closing_ms(webhook(failed())) == 24 * CLOSES_MS


@pytest.mark.parametrize("command", [words.Fence(why="claim_deadline", worker=None)])
def test_what_was_never_launched_is_tried_again_until_its_window_closes(command: words.Command) -> None:
    active = case(pairs.in_state(A.CLAIMED))
    assert settled(active, command, now_ms=CLOSES_MS - 1)[1].state is R.PENDING
    assert settled(active, command, now_ms=CLOSES_MS)[1] == Standing(R.SKIPPED, "missed_window")


def test_a_forfeit_after_the_window_closed_is_a_miss() -> None:
    assert settled(case(ADMITTED), pairs.forfeit())[1].state is R.PENDING
    assert settled(case(ADMITTED), pairs.forfeit(), now_ms=CLOSES_MS)[1] == Standing(R.SKIPPED, "missed_window")


def test_retries_after_a_launch_know_no_window() -> None:
    active = case(ADMITTED, attempts_allowed=2)
    assert settled(active, pairs.finish(succeeded=False), now_ms=10 * CLOSES_MS)[1].state is R.PENDING


def test_unknown_resolves_like_active() -> None:
    unknown = case(UNKNOWN, attempts_allowed=2)
    assert settled(unknown, pairs.finish())[1].state is R.SUCCEEDED
    assert settled(unknown, pairs.finish(succeeded=False))[1].state is R.PENDING
    assert settled(unknown, pairs.forfeit())[1].state is R.PENDING
    assert settled(unknown, pairs.attest())[1].state is R.QUIESCED


def test_unknown_is_never_retried_under_hold() -> None:
    after, standing = settled(case(ADMITTED, attempts_allowed=9), pairs.lose())
    assert (standing.state, after.attempts[0].superseded) == (R.UNKNOWN, False)


def test_unknown_under_retry_is_superseded_before_the_deadline_only() -> None:
    after, standing = settled(webhook(ADMITTED), pairs.lose())
    assert (standing.state, after.attempts[0].superseded) == (R.PENDING, True)
    after, standing = settled(webhook(ADMITTED), pairs.lose(), now_ms=24 * CLOSES_MS)
    assert (standing.state, after.attempts[0].superseded) == (R.UNKNOWN, False)


def test_superseding_does_not_count_against_attempts() -> None:
    third = failed(3)
    assert conclude(webhook(pairs.superseded(), pairs.superseded(2), third, attempts_allowed=2)).state is R.PENDING


def test_a_superseded_attempt_may_be_attested_while_its_run_waits_or_after_it_ended() -> None:
    assert settled(webhook(pairs.superseded()), pairs.attest())[1].state is R.PENDING
    ended = webhook(pairs.superseded(), pairs.in_state(A.SUCCEEDED, 2))
    assert settled(ended, pairs.attest())[1].state is R.SUCCEEDED


def test_cancel_previous_takes_a_pending_place() -> None:
    assert moved(case(), runs.Displace())[1] == Standing(R.SKIPPED, "superseded")
    assert moved(webhook(pairs.superseded()), runs.Displace())[1].state is R.UNKNOWN


def test_a_pre_claimed_run_whose_schedule_changes_is_fenced() -> None:
    after, standing = moved(case(pairs.in_state(A.CLAIMED)), runs.Displace())
    assert (standing, after.attempts[0].state) == (Standing(R.SKIPPED, "superseded"), A.NOT_LAUNCHED)
    assert step(case(ADMITTED), runs.Displace(), now_ms=0) == (case(ADMITTED), None)


@pytest.mark.parametrize("state", [state for state in A if state not in ATTEMPT_TERMINAL])
def test_restore_makes_the_open_attempt_unknown(state: A) -> None:
    before = case(pairs.in_state(state), cancelled=state is A.CANCELLING)
    after, standing = moved(before, RESTORE)
    assert standing == Standing(R.UNKNOWN, "restored")
    assert [attempt.state for attempt in after.attempts] == [A.UNKNOWN]
    assert settled(after, pairs.attest())[1].state is R.QUIESCED
    assert moved(after, runs.Cancel())[1].state is R.CANCELLING


@pytest.mark.parametrize("attempts", [(), (failed(),)])
def test_restore_of_a_waiting_run_makes_an_attempt_without_a_claim(attempts: tuple[Attempt, ...]) -> None:
    after, standing = moved(case(*attempts, attempts_allowed=2), RESTORE)
    assert standing == Standing(R.UNKNOWN, "restored")
    made = after.attempts[-1]
    assert (made.n, made.state, made.worker, made.token) == (len(attempts) + 1, A.UNKNOWN, "", None)


def test_restore_under_retry_is_delivered_again() -> None:
    after, standing = moved(webhook(ADMITTED), RESTORE)
    assert (standing.state, after.attempts[0].superseded) == (R.PENDING, True)


def test_reopen_is_for_failed_webhooks() -> None:
    ended = webhook(won(succeeded=False), cancelled=True)
    after, standing = moved(ended, runs.Reopen(deadline_ms=99 * CLOSES_MS))
    assert standing.state is R.PENDING
    assert closing_ms(after) == 99 * CLOSES_MS
    claimed, standing = moved(after, runs.Start(pairs.in_state(A.CLAIMED, 2)))
    assert standing.state is R.ACTIVE
    assert moved(claimed, runs.Cancel())[1].state is R.CANCELLED, "what won before the reopen wins nothing now"
    assert step(case(failed()), runs.Reopen(deadline_ms=9), now_ms=0)[1] is None


@pytest.mark.parametrize(
    ("reason", "exit_code", "retried"),
    [("exit", 75, True), ("exit", 1, False), ("exit", None, False), ("timeout", 75, False), ("refused", None, False)],
)
def test_only_a_named_exit_code_is_tried_again(reason: str, exit_code: int | None, retried: bool) -> None:
    attempt = pairs.after(pairs.admit(), pairs.finish(succeeded=False, reason=reason, exit_code=exit_code))
    named = case(attempt, attempts_allowed=3, retried_codes=frozenset({75, -9}))
    assert conclude(named) == (Standing(R.PENDING) if retried else Standing(R.FAILED, reason))
    assert conclude(replace(named, retried_codes=None)) == Standing(R.PENDING), "without names, any failure is"
    assert conclude(replace(named, retried_codes=frozenset())).state is R.FAILED


def test_named_exit_codes_are_for_failures_of_the_work_alone() -> None:
    assert conclude(case(forfeited(), retried_codes=frozenset({75}))).state is R.PENDING
    assert conclude(case(pairs.in_state(A.NOT_LAUNCHED), retried_codes=frozenset({75}))).state is R.PENDING
    uncertain = webhook(pairs.superseded(), failed(2), attempts_allowed=2, retried_codes=frozenset({75}))
    assert conclude(uncertain) == Standing(R.UNKNOWN, "worker_out_of_contact"), "for good, and still as uncertain"


EXAMPLES = {
    R.PENDING: case(failed(), attempts_allowed=2),
    R.ACTIVE: case(pairs.in_state(A.CLAIMED)),
    R.CANCELLING: case(pairs.in_state(A.CANCELLING), cancelled=True),
    R.UNKNOWN: case(UNKNOWN),
    R.SUCCEEDED: case(pairs.in_state(A.SUCCEEDED)),
    R.FAILED: webhook(failed()),
    R.CANCELLED: case(pairs.in_state(A.NOT_LAUNCHED), cancelled=True),
    R.QUIESCED: case(pairs.in_state(A.QUIESCED)),
    R.SKIPPED: case(pairs.in_state(A.NOT_LAUNCHED), given_up="missed_window"),
}


@pytest.mark.parametrize("state", list(R))
@pytest.mark.parametrize("kind", COMMANDS)
def test_every_pair_moves_as_the_table_says_or_is_refused(state: R, kind: type[runs.Command]) -> None:
    before = EXAMPLES[state]
    assert conclude(before).state is state
    made = pairs.in_state(A.CLAIMED, len(before.attempts) + 1)
    by_kind: dict[type[runs.Command], runs.Command] = {
        runs.Start: runs.Start(made),
        runs.Settle: runs.Settle(before.attempts[-1]),
        runs.Cancel: runs.Cancel(),
        runs.Close: runs.Close(),
        runs.Displace: runs.Displace(),
        runs.Restore: RESTORE,
        runs.Reopen: runs.Reopen(deadline_ms=1),
    }
    after, standing = step(before, by_kind[kind], now_ms=0)
    allowed = MOVES.get((state, kind))
    if allowed is None:
        assert (after, standing) == (before, None)
    else:
        assert standing is not None
        assert standing.state in allowed


def test_the_pairs_that_move() -> None:
    """A second spelling of which pairs are not refused."""
    shown = {state: {kind.__name__ for kind in COMMANDS if (state, kind) in MOVES} for state in R}
    assert shown == {
        R.PENDING: {"Start", "Settle", "Cancel", "Close", "Displace", "Restore"},
        R.ACTIVE: {"Settle", "Cancel", "Displace", "Restore"},
        R.UNKNOWN: {"Settle", "Cancel", "Restore"},
        R.CANCELLING: {"Settle", "Restore"},
        R.FAILED: {"Settle", "Reopen"},
        R.SUCCEEDED: {"Settle"},
        R.CANCELLED: {"Settle"},
        R.QUIESCED: {"Settle"},
        R.SKIPPED: {"Settle"},
    }
