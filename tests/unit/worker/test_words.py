import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.worker.world import claim
from worker.ledger_row import LearnPermit, LedgerRow, RowState, Settle, SettleAccept
from worker.outcome import Outcome, Receipt
from worker.protocol import (
    Accept,
    Answer,
    CannotTell,
    ConfirmStopped,
    FenceRequest,
    Finish,
    Forfeit,
    Held,
    Reports,
)
from worker.words import held, meaning, words

BINDING = claim(("r1", 1), incarnation="i1", ledger="l1").binding
RECEIPT = Receipt(execution_id="x", started_ms=4)
SUCCESS = Outcome(succeeded=True, reason=None, exit_code=0, ended_ms=9)
ROW = LedgerRow(binding=BINDING, reservation="x1", reserved_ms=1)
WHO = {"run_id": "r1", "attempt": 1, "incarnation": "i1", "ledger": "l1"}


def row(state: RowState, **fields: object) -> LedgerRow:
    return replace(ROW, state=state, **fields)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (row(RowState.RESERVED), ()),
        (row(RowState.CONSUMED), ()),
        (row(RowState.ACCEPTED, receipt=RECEIPT), (Accept(**WHO, execution_id="x", started_ms=4),)),
        (row(RowState.ACCEPTED, receipt=RECEIPT, accept_answered=True), ()),
        (
            row(RowState.ENDED, receipt=RECEIPT, outcome=SUCCESS),
            (
                Accept(**WHO, execution_id="x", started_ms=4),
                Finish(**WHO, succeeded=True, reason=None, exit_code=0, ended_ms=9),
            ),
        ),
        (row(RowState.FENCED), (FenceRequest(BINDING),)),
        (row(RowState.FENCED, permit_known=True, evidence="late"), (Forfeit(**WHO, evidence="late"),)),
        (row(RowState.LOST, evidence="gone"), (CannotTell(**WHO, evidence="gone"),)),
        (row(RowState.LOST, evidence="gone", answer="recorded"), ()),
    ],
)
def test_what_a_row_has_to_say(row: LedgerRow, said: tuple[object, ...]) -> None:
    assert words(row) == said


def test_after_a_noted_stop_any_end_is_a_confirmed_stop() -> None:
    stopped = row(RowState.ENDED, receipt=RECEIPT, accept_answered=True, outcome=SUCCESS, stop_noted_ms=8)
    (said,) = words(stopped)
    assert isinstance(said, ConfirmStopped)
    assert said.consumed
    assert "its own result was success" in said.evidence


def test_a_stop_before_consumption_is_a_confirmed_stop_that_was_never_consumed() -> None:
    (said,) = words(row(RowState.FENCED, stop_noted_ms=8))
    assert isinstance(said, ConfirmStopped)
    assert not said.consumed
    assert said.ended_ms == 8


@pytest.mark.parametrize("kind", ["recorded", "evidence", "no_such_run"])
def test_final_answers_settle(kind: str) -> None:
    word = CannotTell(**WHO)
    assert meaning(word, Answer(kind)) == Settle(kind)


@pytest.mark.parametrize(
    ("word", "answer", "change"),
    [
        (FenceRequest(BINDING), Answer("fenced"), Settle("fenced")),
        (FenceRequest(BINDING), Answer("permit_exists"), LearnPermit(exists=True)),
        (FenceRequest(BINDING), Answer("denied", reason="failed"), LearnPermit(exists=True)),
        (Forfeit(**WHO), Answer("denied", reason="claimed"), LearnPermit(exists=False)),
        (CannotTell(**WHO), Answer("denied", reason="claimed"), None),
        (Accept(**WHO, execution_id="x", started_ms=4), Answer("evidence"), SettleAccept()),
    ],
)
def test_what_other_answers_mean(word: object, answer: Answer, change: object) -> None:
    assert meaning(word, answer) == change


@pytest.mark.parametrize(
    ("row", "phase", "observable"),
    [
        (row(RowState.RESERVED), "reserved", True),
        (row(RowState.CONSUMED, consumed_ms=2), "consumed", True),
        (row(RowState.ACCEPTED, consumed_ms=2, receipt=RECEIPT), "accepted", True),
        (row(RowState.ENDED, outcome=SUCCESS), "ended", True),
        (row(RowState.FENCED), "reserved", True),
        (row(RowState.LOST), "reserved", False),
        (row(RowState.LOST, consumed_ms=2), "consumed", False),
        (row(RowState.LOST, consumed_ms=2, receipt=RECEIPT), "accepted", False),
    ],
)
def test_how_a_poll_lists_a_row(row: LedgerRow, phase: str, observable: bool) -> None:
    assert held(row, "i1") == Held(run_id="r1", attempt=1, phase=phase, observable=observable)


@pytest.mark.parametrize("state", [RowState.RESERVED, RowState.CONSUMED, RowState.ACCEPTED])
def test_work_of_another_life_is_not_observable(state: RowState) -> None:
    assert not held(row(state), "i2").observable
    assert held(row(RowState.ENDED, outcome=SUCCESS), "i2").observable, "its recorded end is"


def test_the_longest_words_fit_the_protocol() -> None:
    long = "\u2028" * 5_000
    outcome = Outcome(succeeded=False, reason="exit", exit_code=1, ended_ms=9, tail="t" * 1024, evidence=long)
    for each in (
        row(RowState.ENDED, outcome=outcome),
        row(RowState.ENDED, outcome=outcome, stop_noted_ms=1),
        row(RowState.FENCED, stop_noted_ms=1, evidence=long),
        row(RowState.LOST, evidence=long[:1024]),
    ):
        body = msgspec.json.encode(Reports(1, 1, [word for word in words(each) if not isinstance(word, FenceRequest)]))
        assert msgspec.json.decode(body, type=Reports).items
