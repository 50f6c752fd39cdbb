"""A dead or wedged loop never leaves a living leader, and an answer that depended on ownership comes after the commit."""

import asyncio
import sqlite3
from typing import Any

import pytest

from cluster.outcome import OutcomeUnknown
from runner.pulse import Pulse
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, elapsed_s, running, tick, triggered, voter
from worker.protocol import NotOwner, Reports


def test_a_fault_in_a_turn_ends_the_runner_and_with_it_the_process() -> None:
    async def story() -> None:
        one = voter()

        async def broken(_: Any) -> Any:
            raise sqlite3.OperationalError("disk I/O error")

        async def breaking() -> None:
            async with running(one):
                one.node.read = broken
                with pytest.raises(OutcomeUnknown):
                    await one.apply(tick())
                await asyncio.sleep(1)

        with pytest.raises(ExceptionGroup) as ended:
            await breaking()
        assert ended.group_contains(sqlite3.OperationalError)
        assert not one.runner.drives

    simulate(story)


def test_a_turn_that_hangs_outside_of_a_proposal_steps_down_too() -> None:
    async def story() -> None:
        one = voter()

        async def hung(_: Any) -> Any:
            await asyncio.Event().wait()

        async with running(one):
            await asyncio.sleep(3)
            one.node.read = hung
            one.runner.look()
            begun_s = elapsed_s()
            while not one.node.resigned:  # noqa: ASYNC110 -- virtual time: the node has no hook only for tests
                await asyncio.sleep(0.05)
            assert elapsed_s() - begun_s <= 1.5
            assert one.node.resigned == ["the runner's loop has not turned for 1 s"]

    simulate(story)


def test_an_owner_whose_pulse_is_dead_steps_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dead(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Pulse, "run", dead)

    async def story() -> None:
        one = voter()
        async with running(one):
            await asyncio.sleep(1.5)
            assert one.node.resigned == []
            await asyncio.sleep(1.0)
            assert one.node.resigned == ["the runner's loop has not turned for 1 s"]

    simulate(story)


def test_a_report_is_answered_after_its_commit_and_not_at_all_if_leadership_ends_before() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            await triggered(one)
            worker = FakeWorker(one)
            claim = await worker.launched()
            message = Reports(1, worker.next_number(), [worker.finish(claim)])
            one.node.flowing.clear()
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(unknown(one.admission.reports(worker.principal, message)))
                await asyncio.sleep(0.1)
                assert not asked.done()
                one.node.depose("node2")
            assert asked.result()
            assert isinstance(await one.admission.reports(worker.principal, message), NotOwner)

    simulate(story)


async def unknown(asking: Any) -> bool:
    try:
        await asking
    except OutcomeUnknown:
        return True
    return False
