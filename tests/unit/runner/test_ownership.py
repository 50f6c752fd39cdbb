import asyncio

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown
from runner.checkpoint import ops
from tests.unit.runner.fake_node import HEALTHY, FakeLog
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, operation, running, tick, voter


def acquisitions(log: FakeLog) -> list[str]:
    return [op.owner for command in log.commands for op in command.ops if isinstance(op, ops.Acquire)]


def test_nothing_is_acquired_or_served_without_leadership() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        two.node.leader = "node1"
        async with running(one, two):
            await asyncio.sleep(5)
            assert acquisitions(log) == ["node1"]
            assert (two.runner.drives, two.runner.epoch, two.runner.owner()) == (False, None, "node1")
            reply = await FakeWorker(two).not_owner()
            assert (reply.owner, len(reply.urls)) == ("node1", 2)

    simulate(story)


def test_a_takeover_fences_the_old_owner_by_epoch_and_forgets_what_was_only_in_memory() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        async with running(one, two):
            await one.apply(tick())
            await FakeWorker(one).poll()
            assert [contact.name for contact in one.runner.workers()] == ["w1"]
            one.node.depose("node2")
            two.node.elect()
            await two.driving()
            assert (one.runner.drives, two.runner.epoch) == (False, 2)
            assert one.runner.workers() == two.runner.workers() == []
            with pytest.raises(NotApplied):
                await one.apply(tick("other"))
            await asyncio.sleep(4)
            assert {command.actor for command in log.commands[3:]} == {"node2"}
            assert len(two.runs()) >= 2

    simulate(story)


def test_an_acquisition_whose_reply_is_lost_is_tried_again_from_the_barrier() -> None:
    async def story() -> None:
        one = voter()
        one.node.fail = one.node.lose_reply
        async with running(one):
            assert acquisitions(one.log) == ["node1", "node1"]
            assert one.runner.epoch == 2
            assert one.log.commands[1].expect_epoch == 1

    simulate(story)


def test_a_leader_that_cannot_acquire_in_time_steps_down() -> None:
    async def story() -> None:
        one = voter()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(one.runner.run())
            one.node.flowing.clear()
            one.node.elect()
            await asyncio.sleep(1.9)
            assert one.node.resigned == []
            await asyncio.sleep(0.2)
            assert one.node.resigned == ["the checkpoint was not acquired within 2 s"]
            one.node.flowing.set()
            one.node.elect()
            await one.driving()
            task.cancel()

    simulate(story)


def test_an_owner_stuck_in_one_turn_steps_down_and_an_idle_one_does_not() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await asyncio.sleep(60)
            assert one.node.resigned == []
            one.node.flowing.clear()
            with pytest.raises(OutcomeUnknown):
                await one.apply(tick())
            assert one.node.resigned == ["the runner's loop has not turned for 1 s"]
            assert not one.runner.drives

    simulate(story)


def test_standing_down_finishes_the_turn_under_way_and_never_owns_again() -> None:
    async def story() -> None:
        one = voter()
        one.node.others = HEALTHY
        async with running(one):
            one.node.flowing.clear()
            async with asyncio.TaskGroup() as group:
                proposed = group.create_task(one.apply(tick()))
                await asyncio.sleep(0.01)
                standing_down = group.create_task(one.runner.stand_down("stopping"))
                await asyncio.sleep(0.01)
                assert not standing_down.done()
                assert not one.runner.drives
                one.node.flowing.set()
            assert proposed.result().kind == "done"
            assert (one.node.transfers, one.node.resigned) == ([2.0], [])
            assert one.runner.owner() == "node2"
            one.node.elect()
            await asyncio.sleep(5)
            assert not one.runner.drives
            await one.runner.stand_down("again")

    simulate(story)


def test_leadership_news_of_a_new_term_starts_a_new_tenure() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            one.node.elect()
            await asyncio.sleep(0.1)
            assert one.runner.epoch == 2
            assert (
                await one.runner.submit(ops.SetEnabled(operation("k"), "demo", "x", enabled=True))
            ).kind == "refused"

    simulate(story)


def test_a_node_that_is_closed_underneath_ends_the_runner() -> None:
    async def story() -> None:
        one = voter()
        one.node.ends = True
        with pytest.raises(ExceptionGroup) as ended:
            await one.runner.run()
        assert ended.group_contains(NotApplied)

    simulate(story)
