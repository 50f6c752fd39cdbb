"""Every (state, command) pair of the attempt table, against a second spelling of DESIGN section 4 as a grid."""

import pytest

from runner.checkpoint import attempt_words as words
from runner.checkpoint.attempt import MOVES, TERMINAL, UNCERTAIN, holds_capacity, step, was_launched
from runner.checkpoint.attempt_words import COMMANDS, Facts, Reason
from runner.checkpoint.records import Attempt, AttemptState
from tests.unit.checkpoint import pairs

# A state: it goes there. grant / regrant: the permit. keep: evidence, unchanged. exists: a permit stands.
# permitted, fenced: denied for ever with that reason. no: refused with the state. again: the same answer as before.
# The commands fit: same worker, life and ledger, every guard holds; the results differ from what was recorded before.
GRID = """
             Claim   Admit     Fence       Cancel      Accept     Finish    ConfirmStopped Forfeit   Lose       Attest   Supersede Restore
-            Claimed no        no          no          no         no        no             no        no         no       no        Unknown
Claimed      again   grant     NotLaunched NotLaunched no         no        no             no        no         no       no        Unknown
Admitted     no      regrant   exists      Cancelling  Accepted   Succeeded no             Failed    Unknown    no       no        Unknown
Accepted     no      permitted exists      Cancelling  keep       Succeeded no             no        Unknown    no       no        Unknown
Cancelling   no      permitted exists      again       Cancelling Succeeded Cancelled      Cancelled Cancelling no       no        Unknown
unresolved   no      permitted exists      again       Cancelling Succeeded Cancelled      Cancelled Cancelling Quiesced no        Unknown
Unknown      no      permitted exists      Cancelling  Unknown    Succeeded keep           Failed    keep       Quiesced Unknown   Unknown
superseded   no      permitted exists      Cancelling  Unknown    keep      keep           keep      keep       Quiesced again     Unknown
Succeeded    no      permitted exists      no          keep       keep      keep           keep      keep       no       no        no
Failed       no      permitted exists      no          keep       keep      keep           keep      keep       no       no        no
Cancelled    no      permitted exists      no          keep       keep      keep           keep      keep       no       no        no
NotLaunched  no      fenced    again       no          keep       keep      keep           keep      keep       no       no        no
Quiesced     no      permitted exists      no          keep       keep      keep           keep      keep       no       no        no
"""

BY_NAME = {command.__name__: command for command in COMMANDS}
FITTING: dict[str, words.Command] = {
    "Claim": pairs.claim(),
    "Admit": pairs.admit(),
    "Fence": words.Fence(why="claim_deadline", worker=None),
    "Cancel": words.Cancel(),
    "Accept": pairs.accept(execution_id="other"),
    "Finish": pairs.finish(ended_ms=99),
    "ConfirmStopped": pairs.stopped(ended_ms=99),
    "Forfeit": pairs.forfeit(),
    "Lose": pairs.lose("cannot_tell"),
    "Attest": pairs.attest(),
    "Supersede": words.Supersede(),
    "Restore": pairs.RESTORE,
}


def cells() -> list[tuple[str, str, str]]:
    heading, *rows = GRID.strip().splitlines()
    columns = heading.split()
    return [
        (row.split()[0], column, cell) for row in rows for column, cell in zip(columns, row.split()[1:], strict=True)
    ]


def attempt_in(state: str) -> Attempt | None:
    special = {"-": lambda: None, "superseded": pairs.superseded, "unresolved": pairs.unresolved}
    return special[state]() if state in special else pairs.in_state(AttemptState(state))


DENIED = {Reason.ALREADY_PERMITTED: "permitted", Reason.FENCED: "fenced"}


def outcome(before: Attempt | None, after: Attempt | None, decision: words.Decision) -> str:
    if isinstance(decision, words.Denied):
        assert decision.reason in {Reason.ILLEGAL_MOVE, Reason.STILL_STOPPING, *DENIED}
        assert decision.state is (None if before is None else before.state)
        return DENIED.get(decision.reason, "no")
    if isinstance(decision, words.Moved):
        assert after is not None
        return "again" if decision.again else after.state.value
    if isinstance(decision, words.Granted):
        return "regrant" if decision.again else "grant"
    return "exists" if isinstance(decision, words.PermitExists) else "keep"


def test_the_grid_names_every_pair() -> None:
    named = {(state, command) for state, command, _ in cells()}
    states = {"-", "superseded", "unresolved", *(state.value for state in AttemptState)}
    assert named == {(state, command) for state in states for command in BY_NAME}
    assert set(FITTING) == set(BY_NAME)


@pytest.mark.parametrize(("state", "command", "cell"), cells())
def test_pair(state: str, command: str, cell: str) -> None:
    before = attempt_in(state)
    after, decision = step(before, FITTING[command], Facts(), now_ms=pairs.NOW_MS)
    assert outcome(before, after, decision) == cell
    if cell in {"no", "exists", "permitted", "fenced", "again", "regrant"}:
        assert after is before
    if cell == "keep":
        assert after is not None
        assert before is not None
        assert after.state is before.state
        assert (after.unresolved, after.superseded, after.won) == (before.unresolved, before.superseded, before.won)
        assert len(after.evidence) > len(before.evidence)


def test_every_row_of_the_table_is_reached_by_the_grid() -> None:
    refused = {(state, command) for state, command, cell in cells() if cell == "no"}
    for state, command in MOVES:
        named = ("-" if state is None else state.value, command.__name__)
        assert named not in refused or named == ("Cancelling", "Attest"), named  # only while it is not unresolved


@pytest.mark.parametrize("state", [each for each in AttemptState if each is not AttemptState.CLAIMED])
def test_no_command_leads_to_a_second_permit(state: AttemptState) -> None:
    before = attempt_in(state.value)
    for command in FITTING.values():
        after, decision = step(before, command, Facts(), now_ms=pairs.NOW_MS)
        assert after is not None
        assert not (isinstance(decision, words.Granted) and not decision.again)
        assert before is not None
        assert after.token == before.token


def test_a_permit_and_a_fence_never_meet() -> None:
    for state, command, _ in cells():
        after, _decision = step(attempt_in(state), FITTING[command], Facts(), now_ms=pairs.NOW_MS)
        assert after is None or after.token is None or not after.fenced


def test_what_holds_capacity_and_what_was_launched() -> None:
    holding = {state for state in AttemptState if holds_capacity(pairs.in_state(state))}
    assert holding == {AttemptState.CLAIMED, *UNCERTAIN}
    assert not holds_capacity(pairs.superseded())
    launched = {state for state in AttemptState if was_launched(pairs.in_state(state))}
    assert launched == set(AttemptState) - {AttemptState.CLAIMED, AttemptState.NOT_LAUNCHED}
    assert not was_launched(pairs.after(pairs.admit(), pairs.forfeit()))
    assert set(TERMINAL) | set(UNCERTAIN) | {AttemptState.CLAIMED} == set(AttemptState)
