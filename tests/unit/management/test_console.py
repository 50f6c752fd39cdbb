"""The console against management in memory: what each line becomes, whose it is, and how its end is told."""

import json
from typing import Any

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown, Unfit, Why
from cluster.relay import ReplyLost
from fencepost.console_text import text
from runner.checkpoint.ops import (
    Apply,
    AttestedRow,
    AttestIncarnationOp,
    AttestOp,
    CancelOp,
    Delete,
    SetEnabled,
    SetFrozen,
    Trigger,
)
from runner.checkpoint.results import OpResult
from runner.management.asking import ENDPOINTS
from runner.management.authorization import ALLOWED, LOCAL, may_use
from runner.management.console import Console, Order
from runner.management.console_answers import Answer
from runner.management.console_words import WORDS
from runner.management.line_input import Line, Trouble
from tests.unit.management.fakes import (
    BEARERS,
    KEY,
    TOKENS,
    Voter,
    cluster,
    put_attempt,
    put_event,
    put_run,
    put_schedule,
    spec,
)

FILES = {f"{principal.role}-{principal.name}.token": token for principal, token in TOKENS.items()}
RECOVERY, OPERATOR, TENANT = "recovery-rita.token", "operator-olga.token", "operator-tina.token"
ATTEST = "attest r1 1 --attester Rita --statement 'host is off' --evidence 'ticket 7'"
VALUES: dict[str, Any] = {
    "run": "r1",
    "attempt": 1,
    "schedule": "a/b",
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-01-01T00:00:00Z",
    "action": "accept",
    "attester": "x",
    "statement": "x",
    "evidence": "x",
    "row_revision": 1,
    "worker": "w1",
    "incarnation": "a4",
    "attempts": [],
}


def read(name: str) -> bytes:
    if name not in FILES:
        raise Unfit(f"credential file {name} cannot be read")
    return FILES[name]


def console(voter: Voter) -> Console:
    return Console(management=voter.management, bearers=BEARERS, read_credential=read)


async def said(voter: Voter, line: str, number: int = 1) -> Answer:
    desk = console(voter)
    order = desk.order(Line(number, line.encode()))
    return await desk.carry_out(order) if isinstance(order, Order) else order


def with_run(voter: Voter, state: str = "Unknown") -> None:
    row = spec()
    put_schedule(voter.db, row)
    put_run(voter.db, "r1", row, 0, state)
    put_attempt(voter.db, "r1", 1, state)


async def test_each_change_becomes_its_op_under_the_name_of_the_console() -> None:
    voter, _ = cluster()
    schedule = '{"namespace": "demo", "name": "tick", "every_s": 60, "command": {"argv": ["true"]}}'
    for line in (
        "cancel r1",
        "trigger demo/tick",
        "enable demo/tick",
        "disable demo/tick",
        "delete demo/tick",
        "freeze",
        "unfreeze",
        f'{{"command": "apply", "schedules": [{schedule}]}}',
    ):
        answer = await said(voter, line)
        assert (answer.certainty, answer.problem) == ("done", None), line
        assert answer.key
    cancel, trigger, enable, disable, delete, freeze, unfreeze, apply = voter.owner.ops
    assert isinstance(cancel, CancelOp)
    assert cancel.run_id == "r1"
    assert isinstance(trigger, Trigger)
    assert (trigger.namespace, trigger.name) == ("demo", "tick")
    assert isinstance(enable, SetEnabled)
    assert isinstance(disable, SetEnabled)
    assert (enable.enabled, disable.enabled) == (True, False)
    assert isinstance(delete, Delete)
    assert isinstance(freeze, SetFrozen)
    assert isinstance(unfreeze, SetFrozen)
    assert (freeze.frozen, unfreeze.frozen) == (True, False)
    assert isinstance(apply, Apply)
    assert [each.name for each in apply.schedules] == ["tick"]
    assert {op.operation.principal for op in voter.owner.ops} == {LOCAL.name}


async def test_the_same_key_is_the_same_operation_as_it_would_be_over_http() -> None:
    voter, _ = cluster()
    first = await said(voter, f"cancel r1 --key {KEY} --credential {OPERATOR}")
    assert first.key == KEY
    await voter.ask("POST", "/v1/cancel", {"run_id": "r1"})
    over_lines, over_http = voter.owner.ops
    assert over_lines == over_http


async def test_a_change_without_a_key_gets_a_fresh_one_each_time() -> None:
    voter, _ = cluster()
    keys = {(await said(voter, "cancel r1")).key for _ in range(3)}
    assert len(keys) == 3


async def test_attestation_takes_a_recovery_credential_and_the_row_as_it_reads_now() -> None:
    voter, _ = cluster()
    with_run(voter)
    answer = await said(voter, f"{ATTEST} --credential {RECOVERY}")
    assert answer.certainty == "done"
    (op,) = voter.owner.ops
    assert isinstance(op, AttestOp)
    assert (op.run_id, op.attempt, op.row_revision, op.operation.principal) == ("r1", 1, 12, "rita")
    assert (op.attester, op.statement, op.evidence) == ("Rita", "host is off", "ticket 7")


async def test_all_of_a_lost_incarnation_is_attested_as_it_reads_now_and_repeated_as_it_was_said() -> None:
    voter, _ = cluster()
    with_run(voter)
    put_run(voter.db, "r2", spec(), 60_000, "Unknown")
    put_attempt(voter.db, "r2", 1, "Unknown", revision=13)
    voter.owner.answer = OutcomeUnknown()
    words = "attest-incarnation w1 a4 --attester Rita --statement off --evidence 'ticket 7'"
    answer = await said(voter, f"{words} --credential {RECOVERY}")
    assert answer.certainty == "unknown"
    (op,) = voter.owner.ops
    assert isinstance(op, AttestIncarnationOp)
    assert (op.worker, op.incarnation, op.operation.principal) == ("w1", "a4", "rita")
    assert sorted(op.attempts, key=lambda row: row.run_id) == [AttestedRow("r1", 1, 12), AttestedRow("r2", 1, 13)]

    voter.db.execute("UPDATE attempts SET revision = 99")
    voter.owner.answer = OpResult("done")
    assert (await said(voter, json.dumps(answer.repeat))).certainty == "done"
    assert voter.owner.ops[1] == op
    nothing = await said(voter, f"{words.replace('a4', 'a5')} --credential {RECOVERY}")
    assert nothing.problem is not None
    assert (nothing.problem.status, nothing.certainty) == (404, "not_done")


@pytest.mark.parametrize(
    ("more", "status", "why"),
    [
        ("", 403, "--credential FILE"),
        (f" --credential {OPERATOR}", 403, "needs: recovery"),
        (" --credential worker-wanda.token", 403, "needs: recovery"),
        (" --credential nowhere", 401, "nowhere cannot be read"),
    ],
)
async def test_nobody_else_may_attest(more: str, status: int, why: str) -> None:
    voter, _ = cluster()
    with_run(voter)
    answer = await said(voter, ATTEST + more)
    assert answer.certainty == "not_done"
    assert answer.problem is not None
    assert answer.problem.status == status
    assert why in answer.problem.detail
    assert voter.owner.ops == []


async def test_a_credential_that_the_configuration_does_not_know_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, "old.token", b"an-operator-token-of-old")
    voter, _ = cluster()
    answer = await said(voter, "cancel r1 --credential old.token")
    assert answer.problem is not None
    assert (answer.problem.status, answer.certainty) == (401, "not_done")
    assert "token-of-old" not in str(answer)
    assert voter.owner.ops == []


async def test_a_credential_of_one_namespace_sees_and_touches_no_other() -> None:
    voter, _ = cluster()
    put_schedule(voter.db, spec("other"))
    put_run(voter.db, "r1", spec("other"), 0)
    for line in (f"show r1 --credential {TENANT}", f"cancel r1 --credential {TENANT}"):
        answer = await said(voter, line)
        assert answer.problem is not None
        assert answer.problem.status == 404
    assert voter.owner.ops == []


async def test_reads_are_answered_in_the_forms_of_http() -> None:
    voter, _ = cluster()
    with_run(voter)
    status = await said(voter, "status")
    assert isinstance(status.answer, dict)
    assert status.answer["node"] == "node1"
    runs = await said(voter, "runs --state Unknown --schedule demo/tick --limit 1")
    assert [row["run_id"] for row in _rows(runs)] == ["r1"]
    assert [row["name"] for row in _rows(await said(voter, "schedules"))] == ["tick"]
    assert _rows(await said(voter, "events r1")) == []
    assert [row["why"] for row in _rows(await said(voter, "unknown --worker w1"))] == ["no report came"]
    show = await said(voter, "show r1")
    assert isinstance(show.answer, dict)
    assert show.answer["attempts"][0]["row_revision"] == 12
    missing = await said(voter, "show r2")
    assert missing.problem is not None
    assert (missing.problem.status, missing.certainty) == (404, "not_done")
    assert all(each.key is None for each in (status, runs, show))


async def test_a_list_that_goes_on_says_how_to_ask_for_the_rest() -> None:
    voter, _ = cluster()
    row = spec()
    put_schedule(voter.db, row)
    for minute in range(3):
        put_run(voter.db, f"r{minute}", row, minute * 60_000)
    found, line = [], "runs --schedule demo/tick --limit 1"
    for _ in range(4):
        answer = await said(voter, line)
        found += [each["run_id"] for each in _rows(answer)]
        if answer.more is None:
            break
        line = str(answer.more)
    assert found == ["r2", "r1", "r0"]
    assert (await said(voter, '{"command": "runs", "limit": 50}')).more is None


@pytest.mark.parametrize("word", ["schedules", "unknown", "events"])
async def test_every_list_goes_on(word: str) -> None:
    voter, _ = cluster()
    for n, name in enumerate(("one", "two")):
        row = spec(name=name)
        put_schedule(voter.db, row)
        put_run(voter.db, f"r{n}", row, n * 60_000, "Unknown")
        put_attempt(voter.db, f"r{n}", 1, "Unknown")
        put_event(voter.db, 20 + n, f"r{n}", "lose")
    first = await said(voter, f"{word} --limit 1")
    second = await said(voter, str(first.more))
    assert len(_rows(first)) == len(_rows(second)) == 1
    assert _rows(first) != _rows(second)


async def test_a_refusal_tells_what_is_so() -> None:
    voter, _ = cluster()
    listed = [{"run_id": "r1", "attempt": 1, "row_revision": 13}]
    voter.owner.answer = OpResult("refused", "list_changed", detail={"attempts": listed})
    with_run(voter)
    words = "attest-incarnation w1 a4 --attester Rita --statement off --evidence none"
    answer = await said(voter, f"{words} --credential {RECOVERY}")
    assert answer.problem is not None
    assert (answer.problem.reason, answer.problem.about) == ("list_changed", {"attempts": listed})
    assert "'row_revision': 13" in text(answer)


async def test_a_line_without_a_credential_is_not_passed_on_to_the_owner() -> None:
    owner, follower = cluster()
    with_run(follower)
    change = await said(follower, "cancel r1")
    assert change.certainty == "not_done"
    assert change.problem is not None
    assert "node1 owns" in change.problem.detail
    assert "--credential" in change.problem.detail
    assert str(change.repeat).startswith("cancel r1 --key=")
    here = await said(follower, "runs")
    assert (here.certainty, here.stale_index) == ("done", 40)
    assert [row["run_id"] for row in _rows(here)] == ["r1"]
    assert follower.relay.sent == []
    assert owner.owner.ops == []


async def test_a_line_with_a_credential_is_passed_on_as_over_http() -> None:
    owner, follower = cluster()
    with_run(owner)
    answer = await said(follower, f"cancel r1 --credential {OPERATOR}")
    assert (answer.certainty, answer.problem) == ("done", None)
    attested = await said(follower, f"{ATTEST} --credential {RECOVERY}")
    assert attested.certainty == "done"
    cancel, attest = owner.owner.ops
    assert (cancel.operation.principal, attest.operation.principal) == ("olga", "rita")
    assert follower.owner.ops == []


async def test_three_endings_are_never_mixed_and_what_may_be_repeated_says_how() -> None:
    voter, follower = cluster()
    with_run(voter)
    voter.owner.answer = OpResult("refused", "terminal", detail={"state": "Succeeded"})
    refused = await said(voter, "cancel r1")
    assert (refused.certainty, refused.repeat) == ("not_done", None)
    assert refused.problem is not None
    assert refused.problem.reason == "terminal"

    voter.owner.answer = NotApplied(Why.QUEUE_FULL)
    full = await said(voter, "cancel r1")
    assert (full.certainty, full.repeat) == ("not_done", f"cancel r1 --key={full.key}")

    voter.owner.answer = OutcomeUnknown()
    unknown = await said(voter, '{"command": "cancel", "run": "r1"}')
    assert unknown.certainty == "unknown"
    assert unknown.repeat == {"command": "cancel", "run": "r1", "key": unknown.key}

    voter.owner.answer = OpResult("done")
    follower.relay.loses = ReplyLost("cut off")
    lost = await said(follower, f"cancel r1 --credential {OPERATOR}")
    assert lost.certainty == "unknown"


async def test_an_attestation_is_repeated_about_the_row_that_it_was_about() -> None:
    voter, _ = cluster()
    with_run(voter)
    voter.owner.answer = OutcomeUnknown()
    answer = await said(voter, f"{ATTEST} --credential {RECOVERY}")
    assert answer.certainty == "unknown"
    voter.db.execute("UPDATE attempts SET revision = 99")
    voter.owner.answer = OpResult("done")
    assert (await said(voter, str(answer.repeat))).certainty == "done"
    first, again = voter.owner.ops
    assert first == again


async def test_a_line_in_trouble_is_answered_and_nothing_of_it_is_done() -> None:
    voter, _ = cluster()
    for trouble in Trouble:
        answer = console(voter).order(Line(7, b"cancel r1", trouble))
        assert isinstance(answer, Answer)
        assert (answer.line, answer.certainty) == (7, "not_done")
    assert voter.owner.ops == []


async def test_a_body_that_cannot_be_sent_is_refused_in_words() -> None:
    voter, _ = cluster()
    for body in ("1e400", "[" * 900 + "]" * 900, str(10**30), '[{"namespace": 1}]'):
        answer = await said(voter, f'{{"command": "apply", "schedules": [{body}]}}')
        assert answer.certainty == "not_done"
        assert answer.problem is not None
        assert answer.problem.status in {400, 422}
    assert voter.owner.ops == []


def test_local_stdin_may_what_the_design_says() -> None:
    may = {command for command in ALLOWED if may_use("stdin", command)}
    assert may >= {
        "status",
        "list",
        "show",
        "events",
        "apply",
        "enable",
        "disable",
        "trigger",
        "cancel",
        "delete",
        "freeze",
    }
    assert not may & {"attest", "backup", "restore", "voter replace"}


def test_whatever_local_stdin_may_ask_has_a_word() -> None:
    paths = {word.parts(VALUES).path for word in WORDS.values() if word.command is not None}
    assert {each.path for each in ENDPOINTS if may_use("stdin", each.command)} <= paths


def test_every_word_names_the_command_that_its_endpoint_is_judged_by() -> None:
    commands = {(each.method, each.path): each.command for each in ENDPOINTS} | {("GET", "/v1/status"): "status"}
    for word in WORDS.values():
        if word.command is not None:
            parts = word.parts(VALUES)
            assert commands[parts.method, parts.path] == word.command
            assert parts.is_change == word.is_change


def _rows(answer: Answer) -> list[dict[str, Any]]:
    assert isinstance(answer.answer, list)
    return answer.answer
