import asyncio

import pytest

from runner.checkpoint import ops
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import (
    FakeWorker,
    cancel,
    elapsed_s,
    running,
    tick,
    triggered,
    voter,
)
from worker.protocol import PollReply


def test_a_poll_without_news_is_held_back_and_ended_at_once_by_a_claim() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await worker.poll()
            begun = elapsed_s()
            assert (await worker.poll(3.0)).claims == []
            assert elapsed_s() - begun == pytest.approx(3.0, abs=0.01)
            async with asyncio.TaskGroup() as group:
                polling = group.create_task(worker.poll(5.0))
                await asyncio.sleep(0.5)
                await triggered(one)
                begun = elapsed_s()
            assert len(polling.result().claims) == 1
            assert elapsed_s() - begun < 0.05

    simulate(story)


def test_no_poll_is_held_for_so_long_that_its_worker_would_look_silent() -> None:
    async def story() -> None:
        one = voter(contact_s=3.0)
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await triggered(one)
            await worker.launched()
            for _ in range(10):
                begun = elapsed_s()
                await worker.poll(5.0)
                assert elapsed_s() - begun == pytest.approx(1.0, abs=0.01)
            assert one.states() == ["Active"]

    simulate(story)


def test_what_was_told_once_is_told_again_but_not_in_a_tight_circle() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await triggered(one)
            claim = await worker.claim()
            begun = elapsed_s()
            assert (await worker.poll(5.0)).claims == [claim], "its reply may have been lost"
            assert elapsed_s() - begun == pytest.approx(1.0, abs=0.05)
            worker.hold(claim)
            begun = elapsed_s()
            assert (await worker.poll(4.0)).claims == [claim], "every answer lists all"
            assert elapsed_s() - begun == pytest.approx(4.0, abs=0.05)

    simulate(story)


def test_a_stop_ends_a_held_poll_and_is_repeated_until_confirmed() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            run_id = await triggered(one)
            claim = await worker.launched()
            async with asyncio.TaskGroup() as group:
                polling = group.create_task(worker.poll(5.0))
                await asyncio.sleep(0.5)
                await cancel(one, run_id)
            assert [stop.run_id for stop in polling.result().stops] == [run_id]
            begun = elapsed_s()
            assert [stop.run_id for stop in (await worker.poll(5.0)).stops] == [run_id]
            assert elapsed_s() - begun == pytest.approx(1.0, abs=0.05)
            assert (await worker.report(worker.stopped(claim))).kind == "recorded"
            assert (await worker.poll()).stops == []
            assert one.states() == ["Cancelled"]

    simulate(story)


@pytest.mark.parametrize("by", ["instant", "trigger"])
def test_a_worker_hears_at_once_that_a_later_run_takes_the_place_of_its_own(by: str) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3 if by == "instant" else 3_600, overlap="cancel_previous"))
            worker = FakeWorker(one)
            if by == "trigger":
                await triggered(one, "t1")
            claim = await worker.launched()
            async with asyncio.TaskGroup() as group:
                polling = group.create_task(worker.poll(5.0))
                await asyncio.sleep(0.5)
                if by == "trigger":
                    await triggered(one, "t2")
                begun = elapsed_s()
            (stop,) = polling.result().stops
            assert stop.run_id == claim.binding.run_id
            assert elapsed_s() - begun < (0.05 if by == "trigger" else 2.6)
            assert one.states()[:2] == ["Cancelling", "Pending"]
            await worker.report(worker.stopped(claim))
            assert (await worker.claim()).binding.run_id != claim.binding.run_id
            assert one.states()[0] == "Cancelled"

    simulate(story)


def test_a_report_ends_the_held_poll_since_its_slots_are_out_of_date() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one, slots=1)
            await triggered(one)
            claim = await worker.launched()
            begun = elapsed_s()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.poll(5.0))
                await asyncio.sleep(0.5)
                await worker.report(worker.finish(claim))
            assert elapsed_s() - begun < 0.6

    simulate(story)


def test_a_held_poll_of_an_owner_that_is_none_any_more_says_so() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            worker = FakeWorker(one)
            async with asyncio.TaskGroup() as group:
                polling = group.create_task(one.admission.poll(worker.principal, worker.message(5.0)))
                await asyncio.sleep(0.5)
                one.node.depose("node2")
                await asyncio.sleep(0.01)
                assert polling.done()
            assert not isinstance(polling.result(), PollReply)
            assert (await worker.not_owner()).owner == "node2"

    simulate(story)


def test_no_more_claims_than_slots_and_the_pool_allow() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            names = [f"s{n}" for n in range(6)]
            pool = ops.PoolSpec("narrow", 3)
            await one.apply(*(tick(name, 3_600, pool="narrow") for name in names), pools=(pool,))
            for name in names:
                await triggered(one, f"t-{name}", name)
            small, big = FakeWorker(one, slots=1), FakeWorker(one, "w2", slots=9)
            stranger = FakeWorker(one, "w3", pools=frozenset({"default"}), slots=9)
            await asyncio.sleep(0.1)
            for worker in (stranger, small, big):
                await worker.poll()
                await asyncio.sleep(0.1)
            claims = [len((await worker.poll()).claims) for worker in (stranger, small, big)]
            assert claims == [0, 1, 2]

    simulate(story)


def test_an_older_poll_is_answered_and_believed_in_nothing() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await worker.poll()
            stale = worker.message(5.0)
            await triggered(one)
            claim = await worker.launched()
            await worker.poll()
            begun = elapsed_s()
            reply = await one.admission.poll(worker.principal, stale)
            assert isinstance(reply, PollReply)
            assert elapsed_s() - begun < 0.05
            await asyncio.sleep(0.1)
            assert one.states() == ["Active"]
            assert (await worker.report(worker.finish(claim))).kind == "recorded"

    simulate(story)
