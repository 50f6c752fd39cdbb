"""A machine that cannot bear one operation: it alone is not done, whoever's it is."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from cluster.outcome import NotApplied, Why
from runner.aside import ASIDE_S, Aside
from runner.checkpoint import ops
from runner.checkpoint.records import Run
from runner.checkpoint.results import OpResult
from runner.proposing import MAX_REFUSED
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, operation, running, tick, triggered, voter
from worker.protocol import Answers, Reports


def materialises(op: ops.Op) -> bool:
    return isinstance(op, ops.Materialise)


async def outcome(one: Voter, op: ops.Op) -> OpResult | NotApplied:
    try:
        return await one.runner.submit(op)
    except NotApplied as why:
        return why


def set_aside(logs: list[Any]) -> list[tuple[str, str]]:
    return [(line["op"], line["of"]) for line in logs if line["event"] == "own operation set aside"]


def test_the_caller_of_the_one_operation_that_cannot_be_applied_is_told_and_all_others_are_served() -> None:
    async def story() -> None:
        one = voter()
        one.node.unbearable = lambda op: isinstance(op, ops.Trigger) and op.operation.key == "t13"
        async with running(one):
            await one.apply(tick(every_s=3_600))
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(outcome(one, ops.Trigger(operation(f"t{n}"), "demo", "tick"))) for n in range(40)
                ]
            epoch = one.runner.epoch
            results = [task.result() for task in asked]
            culprit = results.pop(13)
            assert isinstance(culprit, NotApplied)
            assert culprit.why is Why.FAILED_TRIAL
            assert {result.kind for result in results if isinstance(result, OpResult)} == {"done"}
            assert len(results) == len(one.runs()) == 39
            order = [
                op.operation.key for command in one.log.commands for op in command.ops if isinstance(op, ops.Trigger)
            ]
            assert order == [f"t{n}" for n in range(40) if n != 13], "halving keeps the order"
            assert epoch == 1, "no tenure ended"

    simulate(story)


def test_an_own_operation_that_cannot_be_applied_is_named_once_and_left_out_for_a_while() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("bad"), tick("good"))
            bad = next(row for row in one.log.commands[1].ops[0].schedules if row.name == "bad").schedule_id
            one.node.unbearable = lambda op: isinstance(op, ops.Materialise) and op.schedule_id == bad
            with capture_logs() as logs:
                await asyncio.sleep(30)
            assert set_aside(logs) == [("Materialise", bad)]
            assert one.node.refused <= 3, "not in every turn"
            assert {row.schedule for row in one.runs()} == {"good"}
            one.node.unbearable = lambda _: False
            await asyncio.sleep(ASIDE_S)
            assert {row.schedule for row in one.runs()} == {"good", "bad"}, "and then it is tried again"

    simulate(story)


def test_an_edit_of_a_schedule_whose_past_cannot_be_put_on_record_is_not_done() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick())
            one.node.unbearable = materialises
            await asyncio.sleep(5)
            disable = ops.SetEnabled(operation("d1"), "demo", "tick", enabled=False)
            refused = await outcome(one, disable)
            assert isinstance(refused, NotApplied)
            assert "cannot be put on record" in str(refused)
            one.node.unbearable = lambda _: False
            assert (await one.runner.submit(disable)).kind == "done"
            instants = [row.scheduled_for_ms for row in one.runs() if isinstance(row, Run)]
            assert instants, "what fell due before the edit is there"

    simulate(story)


def test_a_claim_that_cannot_be_applied_takes_no_slot_from_the_next_run() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("a", 3_600), tick("b", 3_600))
            first = await triggered(one, "ta", "a")
            one.node.unbearable = lambda op: isinstance(op, ops.ClaimOp) and op.run_id == first
            second = await triggered(one, "tb", "b")
            claim = await FakeWorker(one, slots=1).claim()
            assert claim.binding.run_id == second

    simulate(story)


def test_a_workers_word_that_cannot_be_applied_leaves_the_others_of_its_list_answered() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("a", 3_600), tick("b", 3_600))
            worker = FakeWorker(one)
            claims = []
            for name in "ab":
                await triggered(one, f"t{name}", name)
                claims.append(await worker.launched())
            bad = claims[0].binding.run_id
            one.node.unbearable = lambda op: isinstance(op, ops.FinishOp) and op.run_id == bad
            said = Reports(1, worker.next_number(), [worker.finish(claim) for claim in claims])
            answers = await one.admission.reports(worker.principal, said)
            assert isinstance(answers, Answers)
            assert [(one.kind, one.reason) for one in answers.items] == [
                ("denied", "cannot_be_applied"),
                ("recorded", None),
            ]

    simulate(story)


def test_when_nothing_can_be_applied_the_turn_ends_and_every_caller_is_answered() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            one.node.unbearable = lambda op: isinstance(op, ops.Trigger)
            batch = [ops.Trigger(operation(f"t{n}"), "demo", "tick") for n in range(400)]
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(outcome(one, op)) for op in batch]
            whys = [task.result() for task in asked]
            assert all(isinstance(why, NotApplied) for why in whys)
            assert {why.why for why in whys if isinstance(why, NotApplied)} == {Why.FAILED_TRIAL, Why.QUEUE_FULL}
            assert one.node.refused == MAX_REFUSED
            assert one.node.resigned == [], "many small commands are no sign of being stuck"
            one.node.unbearable = lambda _: False
            assert (await one.apply(tick())).kind == "done"

    simulate(story)


def test_a_proposal_that_was_not_appended_in_time_is_not_done_and_the_tenure_goes_on() -> None:
    async def story() -> None:
        one = voter(stalled_s=60.0)
        async with running(one):
            one.node.flowing.clear()
            with pytest.raises(NotApplied) as late:
                await one.apply(tick())
            assert late.value.why is Why.EXPIRED
            one.node.flowing.set()
            assert (await one.apply(tick())).kind == "done"
            assert one.runner.epoch == 1

    simulate(story)


def test_what_was_set_aside_is_forgotten_after_its_time() -> None:
    aside = Aside()
    assert aside.put(("CloseOp", "r1"), 10.0)
    assert not aside.put(("CloseOp", "r1"), 20.0), "named once"
    assert aside.holds(("CloseOp", "r1"), 10.0 + ASIDE_S - 0.1)
    assert not aside.holds(("CloseOp", "r1"), 10.0 + ASIDE_S)
    assert not aside.holds(("CloseOp", "r2"), 10.0)
    aside.put(("CloseOp", "r2"), 10.0 + ASIDE_S)
    assert set(aside._until_s) == {("CloseOp", "r2")}
