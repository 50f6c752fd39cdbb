"""Each guard of the attempt table alone stands in the way, and says so."""

from dataclasses import replace

import msgspec
import pytest

from runner.checkpoint import attempt_words as words
from runner.checkpoint.attempt import MOVES, Move, Regrant, step
from runner.checkpoint.attempt_words import Denied, Facts, Granted, Kept, Moved, Reason
from runner.checkpoint.records import Attempt, AttemptState, RunState
from runner.checkpoint.said import MAX_EVIDENCE_CHARS
from tests.unit.checkpoint import pairs

CLAIMS = [
    (Reason.RUN_NOT_PENDING, Facts(run_state=RunState.ACTIVE), pairs.claim()),
    (Reason.ATTEMPT_OPEN, Facts(attempt_open=True), pairs.claim()),
    (Reason.ATTEMPT_DIFFERS, Facts(next_n=2), pairs.claim()),
    (Reason.NOT_DUE, Facts(due_ms=pairs.NOW_MS + 1), pairs.claim()),
    (Reason.WINDOW_PASSED, Facts(closing_ms=pairs.NOW_MS), pairs.claim()),
    (Reason.SLOT_HELD, Facts(slot_free_or_own=False), pairs.claim()),
    (Reason.POOL_FULL, Facts(capacity_free=False), pairs.claim()),
    (Reason.AUTHORITY_DIFFERS, Facts(), pairs.claim(authorities=frozenset({"gpu"}))),
    (Reason.AUTHORITY_DIFFERS, Facts(), pairs.claim(namespaces=frozenset({"other"}))),
    (Reason.INCARNATION_RETIRED, Facts(retired=True), pairs.claim()),
    (Reason.FROZEN, Facts(frozen=True), pairs.claim()),
]


def refusal(attempt: Attempt | None, command: words.Command, facts: Facts = words.NOTHING_BESIDE) -> Reason:
    after, decision = step(attempt, command, facts, now_ms=pairs.NOW_MS)
    assert isinstance(decision, Denied), decision
    assert after is attempt
    return decision.reason


def kept(attempt: Attempt, command: words.Command) -> Reason | None:
    after, decision = step(attempt, command, Facts(), now_ms=pairs.NOW_MS)
    assert isinstance(decision, Kept), decision
    assert after is not None
    assert replace(after, evidence=attempt.evidence) == attempt
    return decision.why


def moved(attempt: Attempt, command: words.Command) -> Attempt:
    after, decision = step(attempt, command, Facts(), now_ms=pairs.NOW_MS)
    assert isinstance(decision, Moved), decision
    assert after is not None
    return after


def test_every_guard_of_the_table_is_tested_here() -> None:
    named = {reason for row in MOVES.values() if isinstance(row, Move | Regrant) for reason in row.unless}
    claimed = {reason for reason, _, _ in CLAIMS}
    others = {
        Reason.BINDING_DIFFERS,
        Reason.FENCED,
        Reason.RUN_CANCELLING,
        Reason.ALREADY_PERMITTED,
        Reason.WORKER_DIFFERS,
        Reason.LEDGER_DIFFERS,
        Reason.INCARNATION_DIFFERS,
        Reason.EXECUTION_DIFFERS,
        Reason.GENERATION_DIFFERS,
        Reason.SUPERSEDED,
        Reason.STILL_STOPPING,
        Reason.INCOMPLETE,
        Reason.ROW_CHANGED,
    }
    assert named == claimed | others


OUTSIDE = [{"pools": frozenset({"gpu"})}, {"namespaces": frozenset({"other"})}, {"pools": frozenset()}]
INSIDE = {"pools": frozenset({"default", "gpu"}), "namespaces": frozenset({"demo"})}


@pytest.mark.parametrize("credential", OUTSIDE)
def test_no_permit_is_granted_or_told_of_outside_a_credential_whatever_it_was_at_the_claim(
    credential: dict[str, frozenset[str]],
) -> None:
    claimed, admitted = pairs.in_state(AttemptState.CLAIMED), pairs.in_state(AttemptState.ADMITTED)
    assert refusal(claimed, pairs.admit(**credential)) is Reason.AUTHORITY_DIFFERS
    assert refusal(admitted, pairs.admit(**credential)) is Reason.AUTHORITY_DIFFERS
    for attempt in (claimed, admitted):
        _, decision = step(attempt, pairs.admit(**INSIDE), Facts(), now_ms=pairs.NOW_MS)
        assert isinstance(decision, Granted)


@pytest.mark.parametrize(("reason", "facts", "command"), CLAIMS)
def test_claim(reason: Reason, facts: Facts, command: words.Claim) -> None:
    assert refusal(None, command, facts) is reason


def test_a_claim_is_due_at_its_instant_and_open_until_just_before_its_closing() -> None:
    facts = Facts(due_ms=pairs.NOW_MS, closing_ms=pairs.NOW_MS + 1)
    _, decision = step(None, pairs.claim(), facts, now_ms=pairs.NOW_MS)
    assert decision == Moved()


@pytest.mark.parametrize("part", pairs.BINDING.__struct_fields__)
def test_admit_compares_every_part_of_the_binding(part: str) -> None:
    value = getattr(pairs.BINDING, part)
    other = value + 1 if isinstance(value, int) else f"{value}x"
    asked = msgspec.structs.replace(pairs.BINDING, **{part: other})
    claimed, admitted = pairs.in_state(AttemptState.CLAIMED), pairs.in_state(AttemptState.ADMITTED)
    assert refusal(claimed, pairs.admit(asked=asked)) is Reason.BINDING_DIFFERS
    assert refusal(admitted, pairs.admit(asked=asked)) is Reason.ALREADY_PERMITTED


@pytest.mark.parametrize(
    ("reason", "facts"),
    [
        (Reason.INCARNATION_RETIRED, Facts(retired=True)),
        (Reason.FROZEN, Facts(frozen=True)),
        (Reason.NOT_DUE, Facts(due_ms=pairs.NOW_MS + 1)),
        (Reason.RUN_CANCELLING, Facts(run_state=RunState.CANCELLING)),
    ],
)
def test_admit(reason: Reason, facts: Facts) -> None:
    assert refusal(pairs.in_state(AttemptState.CLAIMED), pairs.admit(), facts) is reason


def test_a_fence_mark_alone_denies_the_permit() -> None:
    fenced = replace(pairs.in_state(AttemptState.CLAIMED), fenced=True)
    assert refusal(fenced, pairs.admit()) is Reason.FENCED


def test_admission_is_idempotent_per_reservation() -> None:
    admitted = pairs.in_state(AttemptState.ADMITTED)
    after, decision = step(admitted, pairs.admit(token=8), Facts(), now_ms=pairs.NOW_MS)
    assert decision == Granted(7, again=True)
    assert after is admitted
    assert refusal(admitted, pairs.admit(reservation="x2")) is Reason.ALREADY_PERMITTED


def test_a_retired_incarnation_is_not_told_of_its_permit_again() -> None:
    admitted = pairs.in_state(AttemptState.ADMITTED)
    assert refusal(admitted, pairs.admit(), Facts(retired=True)) is Reason.INCARNATION_RETIRED


def test_only_the_owner_or_its_own_worker_fences_or_loses() -> None:
    claimed, admitted = pairs.in_state(AttemptState.CLAIMED), pairs.in_state(AttemptState.ADMITTED)
    assert refusal(claimed, words.Fence(why="drain", worker="w2")) is Reason.WORKER_DIFFERS
    assert moved(claimed, words.Fence(why="drain", worker="w1")).fenced
    assert kept(admitted, pairs.lose(worker="w2")) is Reason.WORKER_DIFFERS
    assert moved(admitted, pairs.lose(worker=None, ledger=None)).state is AttemptState.UNKNOWN


@pytest.mark.parametrize("state", [AttemptState.ADMITTED, AttemptState.ACCEPTED, AttemptState.CANCELLING])
def test_a_ledger_that_never_knew_an_attempt_does_not_lose_it(state: AttemptState) -> None:
    """A second host under the name, or a wiped disk, says that it cannot tell: that is no news of the first one."""
    attempt = pairs.in_state(state)
    for ledger in ("other", None):
        after, decision = step(attempt, pairs.lose(ledger=ledger), Facts(), now_ms=1)
        assert decision == Kept(Reason.LEDGER_DIFFERS)
        assert after is not None
        assert (after.state, after.unresolved, after.reason) == (state, attempt.unresolved, attempt.reason)
        assert "cannot_tell" in after.evidence


REPORTS = [pairs.accept(), pairs.finish(), pairs.stopped(), pairs.forfeit()]


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("other", [{"worker": "w2"}, {"ledger": "other"}])
def test_reports_come_from_the_same_worker_and_ledger(report: words.Report, other: dict[str, str]) -> None:
    elsewhere = replace(report, **other)
    assert kept(pairs.in_state(AttemptState.CANCELLING), elsewhere) is Reason.LEDGER_DIFFERS


@pytest.mark.parametrize("report", REPORTS)
def test_what_is_reported_of_an_attempt_of_an_earlier_generation_is_evidence(report: words.Report) -> None:
    cancelling = pairs.in_state(AttemptState.CANCELLING)
    kept_as_it_was, decision = step(cancelling, report, Facts(generation=2), now_ms=pairs.NOW_MS)
    assert decision == Kept(Reason.GENERATION_DIFFERS)
    assert kept_as_it_was is not None
    assert kept_as_it_was.state is AttemptState.CANCELLING
    assert kept_as_it_was.evidence
    _, decision = step(cancelling, report, Facts(generation=1), now_ms=pairs.NOW_MS)
    assert decision == Moved()


@pytest.mark.parametrize("state", [AttemptState.ADMITTED, AttemptState.UNKNOWN, AttemptState.CANCELLING])
def test_only_the_same_incarnation_forfeits(state: AttemptState) -> None:
    assert kept(pairs.in_state(state), pairs.forfeit(incarnation="b")) is Reason.INCARNATION_DIFFERS


def test_a_later_incarnation_confirms_the_stop_only_of_what_was_consumed() -> None:
    cancelling = pairs.in_state(AttemptState.CANCELLING)
    assert kept(cancelling, pairs.stopped(consumed=False, incarnation="b")) is Reason.INCARNATION_DIFFERS
    assert moved(cancelling, pairs.stopped(incarnation="b")).state is AttemptState.CANCELLED
    assert moved(cancelling, pairs.stopped(consumed=False)).reason == words.NOT_CONSUMED


def test_a_later_incarnation_finishes_what_the_same_ledger_observed() -> None:
    unknown = pairs.in_state(AttemptState.UNKNOWN)
    assert moved(unknown, pairs.finish(incarnation="b")).state is AttemptState.SUCCEEDED


@pytest.mark.parametrize("report", [pairs.finish(), pairs.forfeit()])
def test_no_late_report_changes_a_superseded_attempt(report: words.Report) -> None:
    assert kept(pairs.superseded(), report) is Reason.SUPERSEDED


def test_an_execution_id_is_kept_once() -> None:
    for state in (AttemptState.UNKNOWN, AttemptState.CANCELLING):
        known = moved(pairs.in_state(state), pairs.accept())
        assert (known.state, known.execution_id) == (state, "e1")
        assert kept(known, pairs.accept(execution_id="e2")) is Reason.EXECUTION_DIFFERS
        _, decision = step(known, pairs.accept(), Facts(), now_ms=pairs.NOW_MS)
        assert decision == Moved(again=True)


def test_attest_needs_words_the_row_it_was_about_and_an_end_of_waiting() -> None:
    unknown = pairs.in_state(AttemptState.UNKNOWN)
    assert refusal(pairs.in_state(AttemptState.CANCELLING), pairs.attest()) is Reason.STILL_STOPPING
    assert refusal(unknown, pairs.attest(row_revision=5)) is Reason.ROW_CHANGED
    for part in ("attester", "statement", "evidence"):
        assert refusal(unknown, pairs.attest(**{part: " \n"})) is Reason.INCOMPLETE


def test_an_attestation_needs_no_word_of_a_superseded_attempt_s_worker() -> None:
    attested = moved(pairs.superseded(), pairs.attest())
    assert (attested.state, attested.superseded) == (AttemptState.QUIESCED, True)
    assert "Rita" in attested.evidence


def test_cancel_of_an_unknown_attempt_is_unresolved_at_once() -> None:
    for attempt in (pairs.in_state(AttemptState.UNKNOWN), pairs.superseded()):
        cancelling = moved(attempt, words.Cancel())
        assert (cancelling.state, cancelling.unresolved) == (AttemptState.CANCELLING, True)
        assert cancelling.superseded is attempt.superseded
    assert not moved(pairs.in_state(AttemptState.ADMITTED), words.Cancel()).unresolved


def test_completion_that_beats_a_cancellation_has_won() -> None:
    finished = moved(pairs.unresolved(), pairs.finish(succeeded=False, tail="boom"))
    assert (finished.state, finished.won, finished.unresolved) == (AttemptState.FAILED, True, False)
    assert not moved(pairs.in_state(AttemptState.ACCEPTED), pairs.finish()).won


@pytest.mark.parametrize(
    ("attempt", "command"),
    [
        (pairs.after(pairs.admit(), pairs.accept()), pairs.accept()),
        (pairs.after(pairs.admit(), pairs.accept(), pairs.finish()), pairs.accept()),
        (pairs.after(pairs.admit(), pairs.finish()), pairs.finish()),
        (pairs.after(pairs.admit(), pairs.finish(succeeded=False)), pairs.finish(succeeded=False)),
        (pairs.after(pairs.admit(), pairs.finish(incarnation="b")), pairs.finish(incarnation="b")),
        (pairs.after(pairs.admit(), pairs.forfeit()), pairs.forfeit()),
        (pairs.after(pairs.admit(), words.Cancel(), pairs.forfeit()), pairs.forfeit()),
        (pairs.after(pairs.admit(), words.Cancel(), pairs.stopped()), pairs.stopped()),
        (pairs.after(pairs.admit(), pairs.lose()), pairs.lose()),
        (pairs.unresolved(), pairs.lose("stop_deadline", None)),
        (pairs.in_state(AttemptState.CANCELLING), words.Cancel()),
        (pairs.in_state(AttemptState.NOT_LAUNCHED), words.Fence(why="drain", worker="w1")),
        (pairs.in_state(AttemptState.CLAIMED), pairs.claim()),
    ],
)
def test_the_same_command_again_gets_the_same_answer(attempt: Attempt, command: words.Command) -> None:
    after, decision = step(attempt, command, Facts(), now_ms=pairs.NOW_MS + 5)
    assert decision == Moved(again=True)
    assert after is attempt


@pytest.mark.parametrize("reason", ["not_consumed", "made up", None])
def test_a_failure_never_passes_for_a_forfeit(reason: str | None) -> None:
    failed = moved(pairs.in_state(AttemptState.ADMITTED), pairs.finish(succeeded=False, reason=reason))
    assert failed.reason == "exit"


def test_of_output_a_short_tail_is_kept_and_only_without_success() -> None:
    admitted = pairs.in_state(AttemptState.ADMITTED)
    text = "x" * 5_000 + "é" * 600
    assert moved(admitted, pairs.finish(tail=text)).tail == ""
    assert moved(admitted, pairs.finish(succeeded=False, tail=text)).tail == "é" * 512
    assert moved(admitted, pairs.finish(succeeded=False, tail=f"é{'x' * 1023}")).tail == "x" * 1023


def test_evidence_is_kept_once_newest_last_and_bounded() -> None:
    attempt = pairs.in_state(AttemptState.UNKNOWN)
    for at in range(300):
        report = words.Lose(why="cannot_tell", worker="w1", words=f"line {at}\nof many " + "x" * 50)
        for _ in range(2):
            after, _decision = step(attempt, report, Facts(), now_ms=at)
            assert after is not None
            attempt = after
    lines = attempt.evidence.split("\n")
    assert len(attempt.evidence) <= MAX_EVIDENCE_CHARS
    assert "line 299" in lines[-1]
    assert len(lines) == len(set(lines)) > 50
