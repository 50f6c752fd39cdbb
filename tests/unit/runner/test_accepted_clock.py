"""A step of the clocks stops the calendar; a person who says that it was meant starts it again, and nothing else does sooner."""

import asyncio

from runner.checkpoint import ops
from tests.unit.runner.rows import spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import Voter, operation, running, voter

HOUR_MS = 3_600_000


async def accept(one: Voter, key: str = "c1") -> str:
    return (await one.runner.submit(ops.AcceptClock(operation(key)))).kind


def planned(one: Voter) -> int:
    return sum(row.count if hasattr(row, "count") else 1 for row in one.runs())


def test_what_is_accepted_is_believed_at_once() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(spec("tick", ops.Every(1), catch_up=ops.CatchUp(policy="none")))
            await asyncio.sleep(2)
            one.clock.step_ms += HOUR_MS
            await asyncio.sleep(2)
            stopped = planned(one)
            await asyncio.sleep(3)
            assert (one.runner.clock_state(), planned(one)) == ("clock_stepped", stopped)
            assert await accept(one) == "done"
            await asyncio.sleep(1.5)
            assert one.runner.clock_state() == "ok"
            assert planned(one) - stopped >= HOUR_MS // 1000, "the hour that was jumped over is on record"

    simulate(story)


def test_a_step_back_that_is_accepted_plans_nothing_twice() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(spec("tick", ops.Every(1)))
            await asyncio.sleep(5)
            one.clock.step_ms -= 60_000
            await asyncio.sleep(2)
            assert one.runner.clock_state() == "clock_stepped"
            assert await accept(one) == "done"
            await asyncio.sleep(10)  # what fell due by the clock of the doubtful time is decided
            decided = planned(one)
            await asyncio.sleep(30)
            assert (one.runner.clock_state(), planned(one)) == ("clock_behind", decided)
            await asyncio.sleep(40)
            assert planned(one) > decided

    simulate(story)


def test_where_nothing_is_doubted_it_changes_nothing_but_the_trail() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(spec("tick", ops.Every(1)))
            await asyncio.sleep(2)
            before = planned(one)
            assert await accept(one) == "done"
            await asyncio.sleep(2)
            assert (one.runner.clock_state(), planned(one)) == ("ok", before + 2)

    simulate(story)


def test_a_key_that_is_repeated_accepts_no_later_step() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(spec("tick", ops.Every(1)))
            assert await accept(one) == "done"
            one.clock.step_ms += HOUR_MS
            await asyncio.sleep(2)
            assert await accept(one) == "done", "the answer of then"
            await asyncio.sleep(1)
            assert one.runner.clock_state() == "clock_stepped"

    simulate(story)
