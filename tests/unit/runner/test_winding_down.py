"""An owner that stops: another voter takes over at once, or, if none could, what runs is observed to its end first."""

import asyncio

import pytest

from cluster.outcome import NotApplied, Why
from cluster.ports import PeerStatus
from runner.checkpoint import ops
from tests.unit.runner.fake_node import HEALTHY
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, cancel, elapsed_s, operation, running, tick, triggered, voter


async def stopped(one: Voter) -> float:
    """Stop and return how long that took."""
    begun_s = elapsed_s()
    await one.runner.stand_down("stopping")
    return elapsed_s() - begun_s


def test_with_a_successor_leadership_moves_at_once_whatever_runs() -> None:
    async def story() -> None:
        one = voter()
        one.node.others = HEALTHY
        async with running(one):
            await one.apply(tick(every_s=3_600))
            await triggered(one)
            worker = FakeWorker(one)
            await worker.launched()
            assert await stopped(one) < 0.1
            assert one.node.transfers == [2.0]
            assert (await worker.not_owner()).owner == "node2", "it says who owns until it exits"

    simulate(story)


def test_without_one_reports_are_taken_to_the_last_and_nothing_new_begins() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600), tick("quick"), tick("waiting", 3_600))
            worker = FakeWorker(one, slots=2)
            await triggered(one)
            claim = await worker.launched()
            async with asyncio.TaskGroup() as group:
                stopping = group.create_task(stopped(one))
                await asyncio.sleep(0.2)
                made = len(one.runs())
                for op in (
                    ops.Trigger(operation("t9"), "demo", "waiting"),
                    ops.SetEnabled(operation("d9"), "demo", "quick", enabled=False),
                ):
                    with pytest.raises(NotApplied) as refused:
                        await one.runner.submit(op)
                    assert refused.value.why is Why.CLOSED
                await asyncio.sleep(5)
                assert len(one.runs()) == made, "nothing is materialised"
                assert (await worker.poll()).claims == []
                assert not stopping.done()
                assert (await worker.permit(claim)).kind == "granted", "admission is open"
                assert (await worker.report(worker.finish(claim))).kind == "recorded"
                begun_s = elapsed_s()
            assert elapsed_s() - begun_s < 0.5, "it waits no longer than there is something to wait for"
            assert one.node.transfers == [2.0]

    simulate(story)


def test_a_claim_made_before_may_still_be_permitted_and_a_cancel_comes_to_its_end() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("a", 3_600), tick("b", 3_600))
            worker = FakeWorker(one, slots=2)
            first = await triggered(one, "ta", "a")
            running_one = await worker.launched()
            await triggered(one, "tb", "b")
            claimed = await worker.claim()
            worker.hold(claimed)
            async with asyncio.TaskGroup() as group:
                stopping = group.create_task(stopped(one))
                await asyncio.sleep(0.2)
                assert (await worker.permit(claimed, "x2")).kind == "granted"
                await cancel(one, first)
                assert [stop.run_id for stop in (await worker.poll()).stops] == [first]
                assert (await worker.report(worker.stopped(running_one))).kind == "recorded"
                await asyncio.sleep(1)
                assert not stopping.done()
                await worker.report(worker.finish(claimed))
            assert sorted(one.states()) == ["Cancelled", "Succeeded"]

    simulate(story)


def test_it_waits_30_s_at_most_and_no_longer_once_a_successor_is_there_or_leadership_is_lost() -> None:
    async def story() -> None:
        for after_s, ending in ((30.0, None), (7.0, "successor"), (3.0, "deposed")):
            one = voter()
            async with running(one):
                await one.apply(tick(every_s=3_600))
                await triggered(one)
                await FakeWorker(one).launched()
                async with asyncio.TaskGroup() as group:
                    stopping = group.create_task(stopped(one))
                    await asyncio.sleep(after_s - 0.5)
                    assert not stopping.done()
                    await asyncio.sleep(0.5)
                    if ending == "successor":
                        one.node.others = HEALTHY
                    elif ending == "deposed":
                        one.node.depose("node2")
                assert stopping.result() == pytest.approx(after_s, abs=0.3)

    simulate(story)


def test_a_claim_that_was_committed_in_the_last_turn_is_waited_for() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await worker.poll()
            await triggered(one)
            while not one.attempts():  # noqa: ASYNC110 -- virtual time: up to the very commit of the claim
                await asyncio.sleep(0.0005)
            async with asyncio.TaskGroup() as group:
                stopping = group.create_task(stopped(one))
                claim = await worker.claim()
                worker.hold(claim)
                assert (await worker.permit(claim)).kind == "granted"
                await asyncio.sleep(2)
                assert not stopping.done()
                await worker.report(worker.finish(claim))

    simulate(story)


def test_an_owner_without_open_work_or_that_never_owned_stops_at_once() -> None:
    async def story() -> None:
        one, two = voter(), voter(name="node2")
        two.node.others = [PeerStatus("node1", False, 1)]
        async with running(one, two):
            await one.apply(tick(every_s=3_600))
            await asyncio.sleep(0.1)
            assert await stopped(one) < 0.3
            assert await stopped(two) < 0.1

    simulate(story)
