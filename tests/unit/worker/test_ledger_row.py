import itertools

import pytest
from msgspec.structs import replace

from tests.unit.worker.world import claim
from worker.ledger_row import (
    MOVES,
    Command,
    Consume,
    Denied,
    Done,
    End,
    Fence,
    KeepReceipt,
    LearnPermit,
    LedgerRow,
    Lose,
    NoteStop,
    Reason,
    Remember,
    Reserve,
    RowState,
    Settle,
    SettleAccept,
    step,
)
from worker.outcome import Outcome, Receipt

BINDING = claim(("r1", 1), incarnation="i1", ledger="l1").binding
ENDED = Outcome(succeeded=True, reason=None, exit_code=0, ended_ms=9)
RECEIPT = Receipt(execution_id="x", started_ms=4)
COMMANDS: list[Command] = [
    Reserve(BINDING, "x1"),
    Consume("i1", 7, 1.0, 60.0),
    Fence("why"),
    LearnPermit(exists=True),
    KeepReceipt(RECEIPT),
    End(ENDED),
    NoteStop(),
    Lose("gone"),
    SettleAccept(),
    Settle("recorded"),
    Remember(),
]
ROW = LedgerRow(binding=BINDING, reservation="x1", reserved_ms=1)
ROWS: list[LedgerRow | None] = [None, *(replace(ROW, state=state) for state in RowState)]

# Written out a second time, by hand, from DESIGN 3.3 and 4: what each state lets happen.
ALLOWED = {
    None: "Reserve>reserved",
    RowState.RESERVED: "Consume>consumed Fence>fenced NoteStop>fenced Lose>lost",
    RowState.CONSUMED: "KeepReceipt>accepted End>ended NoteStop>consumed Lose>lost",
    RowState.ACCEPTED: "SettleAccept>accepted End>ended NoteStop>accepted Lose>lost",
    RowState.ENDED: "SettleAccept>ended Settle>ended",
    RowState.FENCED: "NoteStop>fenced LearnPermit>fenced Settle>fenced",
    RowState.LOST: "SettleAccept>lost Settle>lost",
}


def test_the_commands_are_all_there() -> None:
    assert {type(command) for command in COMMANDS} == set(Command.__args__)


@pytest.mark.parametrize(("row", "command"), list(itertools.product(ROWS, COMMANDS)))
def test_every_pair_of_state_and_command(row: LedgerRow | None, command: Command) -> None:
    state = row.state if row is not None else None
    allowed = dict(each.split(">") for each in ALLOWED[state].split())
    after, decision = step(row, command, now_ms=50)
    target = allowed.get(type(command).__name__)
    if target is None:
        assert decision == Denied(Reason.ILLEGAL_MOVE, state)
        assert after == row
    else:
        assert decision == Done()
        assert after is not None
        assert after.state.value == target


def test_permission_is_consumed_only_once_and_only_from_a_reservation() -> None:
    into = {state for (state, _), target in MOVES.items() if target is RowState.CONSUMED and state is not target}
    assert into == {RowState.RESERVED}
    back = {state for (state, _), target in MOVES.items() if target is RowState.RESERVED}
    assert back == {None}, "nothing leads back to a reservation"


def test_another_life_never_consumes() -> None:
    row, decision = step(ROW, Consume("i2", 7, 1.0, 60.0), now_ms=5)
    assert decision == Denied(Reason.OTHER_INCARNATION, RowState.RESERVED)
    assert row == ROW


@pytest.mark.parametrize(("waited_s", "expected"), [(60.0, Done()), (60.001, Reason.GRANT_EXPIRED)])
def test_a_late_grant_is_dropped(waited_s: float, expected: object) -> None:
    _, decision = step(ROW, Consume("i1", 7, waited_s, 60.0), now_ms=5)
    assert expected in (decision, getattr(decision, "reason", None))


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=lambda command: type(command).__name__)
def test_a_settled_row_changes_no_more(command: Command) -> None:
    for row in ROWS[1:]:
        assert row is not None
        settled = replace(row, answer="recorded", answered_ms=20)
        after, decision = step(settled, command, now_ms=50)
        assert after == settled
        assert isinstance(decision, Denied)


@pytest.mark.parametrize("state", [RowState.ENDED, RowState.FENCED, RowState.LOST])
def test_a_settled_row_may_be_remembered_and_an_open_one_may_not(state: RowState) -> None:
    open_row = replace(ROW, state=state)
    settled = replace(open_row, answer="recorded", answered_ms=20)
    assert step(settled, Remember(), now_ms=50) == (replace(settled, answered_ms=50), Done())
    assert step(open_row, Remember(), now_ms=50) == (open_row, Denied(Reason.ILLEGAL_MOVE, state))


def test_the_first_stop_counts() -> None:
    row, _ = step(replace(ROW, state=RowState.ACCEPTED), NoteStop(), now_ms=50)
    row, _ = step(row, NoteStop(), now_ms=60)
    assert row is not None
    assert row.stop_noted_ms == 50


def test_a_stop_after_the_recorded_end_changes_nothing() -> None:
    ended = replace(ROW, state=RowState.ENDED, outcome=ENDED)
    assert step(ended, NoteStop(), now_ms=50) == (ended, Denied(Reason.ILLEGAL_MOVE, RowState.ENDED))
