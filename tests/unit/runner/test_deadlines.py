import pytest

from runner.checkpoint.ops import FenceOp, LoseOp
from runner.checkpoint.records import Attempt, AttemptState
from runner.contacts import Ask, Contact
from runner.deadlines import overdue, watch
from runner.settings import Timing
from tests.unit.runner.rows import attempt, contact, held
from worker.engine.process import Limits
from worker.protocol import MAX_POLL_S
from worker.timing import Timing as WorkerTiming

TIMING = Timing()
S = AttemptState
LISTED = contact(held=held(), served_s=100.0)


def why(
    row: Attempt,
    *,
    by: Contact | None = None,
    since_s: float = 100.0,
    served_s: float = 100.0,
    ask: Ask | None = None,
    epoch: int = 3,
) -> tuple[type, str] | None:
    """Return the kind and reason of what is proposed about one attempt, or None."""
    key = (row.run_id, row.n)
    watches = watch({}, [row], since_s)
    asks = {key: ask} if ask else {}
    found = overdue(
        [row],
        watches,
        asks,
        lambda name: by if by is not None and by.worker == name else None,
        epoch=epoch,
        served_s=served_s,
        timing=TIMING,
    )
    assert all((op.run_id, op.attempt, op.worker) == (row.run_id, row.n, None) for op in found)
    return (type(found[0]), found[0].why) if found else None


def test_the_defaults_are_those_of_the_table() -> None:
    assert (TIMING.claim_s, TIMING.acquire_s, TIMING.poll_s, TIMING.contact_s) == (15.0, 2.0, 5.0, 30.0)
    assert (TIMING.stop_grace_s, TIMING.stop_deadline_s, TIMING.drain_s, TIMING.stalled_s) == (10.0, 30.0, 30.0, 1.0)
    theirs = WorkerTiming()
    assert (theirs.grant_expiry_s, theirs.drain_s, theirs.poll_wait_s, MAX_POLL_S) == (60.0, 30.0, 5.0, 5.0)
    assert Limits().stop_grace_s == TIMING.stop_grace_s, "what the engine gives is what the owner waits for"


def test_a_claim_made_before_the_takeover_is_fenced_15_s_after_it() -> None:
    row = attempt(state=S.CLAIMED)
    assert why(row, since_s=0.0, served_s=14.9) is None
    assert why(row, since_s=0.0, served_s=15.0) == (FenceOp, "claim_deadline")


def test_a_claim_is_fenced_15_s_after_the_claim_or_the_last_ask() -> None:
    row = attempt(state=S.CLAIMED)
    by = contact(served_s=114.0)
    assert why(row, by=by, served_s=114.9) is None
    assert why(row, by=by, served_s=115.0) == (FenceOp, "claim_deadline")
    asked = Ask("i1", 9, served_s=110.0)
    assert why(row, by=by, served_s=124.9, ask=asked) is None
    assert why(row, by=by, served_s=125.0, ask=asked) == (FenceOp, "claim_deadline")


def test_a_claim_of_a_replaced_incarnation_is_fenced_at_once() -> None:
    assert why(attempt(state=S.CLAIMED), by=contact(incarnation="i2")) == (FenceOp, "incarnation_replaced")


@pytest.mark.parametrize("state", [S.ADMITTED, S.ACCEPTED, S.CANCELLING])
def test_a_silent_worker_is_lost_after_30_s(state: AttemptState) -> None:
    row = attempt(state=state)
    assert why(row, by=LISTED, since_s=120.0, served_s=129.9) is None
    assert why(row, by=LISTED, since_s=120.0, served_s=130.0) == (LoseOp, "worker_out_of_contact")


@pytest.mark.parametrize("state", [S.ADMITTED, S.ACCEPTED, S.CANCELLING])
def test_a_worker_never_heard_is_silent_since_the_takeover(state: AttemptState) -> None:
    assert why(attempt(state=state), since_s=0.0, served_s=29.9) is None
    assert why(attempt(state=state), since_s=0.0, served_s=30.0) == (LoseOp, "worker_out_of_contact")


@pytest.mark.parametrize("state", [S.ADMITTED, S.ACCEPTED, S.CANCELLING])
def test_a_new_incarnation_loses_what_it_cannot_observe(state: AttemptState) -> None:
    row = attempt(state=state)
    new = contact(incarnation="i2", served_s=100.0)
    assert why(row, by=new) == (LoseOp, "incarnation_replaced")
    blind = contact(incarnation="i2", served_s=100.0, held=held(observable=False))
    assert why(row, by=blind) == (LoseOp, "incarnation_replaced")
    sees = contact(incarnation="i2", served_s=100.0, held=held(observable=True))
    assert why(row, by=sees) is None
    other_ledger = contact(incarnation="i2", ledger="l2", served_s=100.0, held=held(observable=True))
    assert why(row, by=other_ledger) == (LoseOp, "incarnation_replaced")


@pytest.mark.parametrize("state", [S.ADMITTED, S.ACCEPTED])
def test_absence_from_a_poll_loses_only_if_the_poll_could_know(state: AttemptState) -> None:
    row = attempt(state=state)
    poll = contact(number=10, served_s=100.0)
    assert why(row, by=poll) == (LoseOp, "not_held")
    assert why(row, by=poll, ask=Ask("i1", 9, 99.0)) == (LoseOp, "not_held")
    assert why(row, by=poll, ask=Ask("i1", 10, 99.0)) is None
    assert why(row, by=poll, ask=Ask("i1", 11, 99.0)) is None
    assert why(row, by=contact(epoch=0, served_s=100.0)) is None
    assert why(row, by=contact(epoch=2, served_s=100.0)) is None
    assert why(row, by=contact(complete=False, served_s=100.0)) is None
    assert why(row, by=contact(held=held(phase="reserved"), served_s=100.0)) is None


def test_a_stop_that_is_not_confirmed_is_unresolved_after_grace_and_deadline() -> None:
    row = attempt(state=S.CANCELLING)
    by = contact(held=held(), served_s=139.0)
    assert why(row, by=by, served_s=139.9) is None
    assert why(row, by=by, served_s=140.0) == (LoseOp, "stop_deadline")
    assert why(attempt(state=S.CANCELLING, unresolved=True), by=by, served_s=900.0) is None


def test_evidence_says_what_was_heard() -> None:
    row = attempt(state=S.ACCEPTED)
    watches = watch({}, [row], 0.0)
    told = contact(incarnation="i2", held=held(phase="consumed", observable=False))
    for by, words in ((None, "has not polled"), (told, "incarnation i2, lists it as consumed")):
        known = {} if by is None else {"w1": by}
        (op,) = overdue([row], watches, {}, known.get, epoch=3, served_s=30.0, timing=TIMING)
        assert isinstance(op, LoseOp)
        assert words in op.evidence


def test_a_watch_starts_anew_with_each_state_and_ends_with_the_attempt() -> None:
    first = watch({}, [attempt(state=S.CLAIMED), attempt("r2")], 1.0)
    second = watch(first, [attempt(state=S.ADMITTED)], 5.0)
    assert {key: seen.since_s for key, seen in first.items()} == {("r1", 1): 1.0, ("r2", 1): 1.0}
    assert {key: seen.since_s for key, seen in second.items()} == {("r1", 1): 5.0}
    assert watch(second, [attempt(state=S.ADMITTED)], 9.0) == second
