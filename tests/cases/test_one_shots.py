"""C29: a one-shot runs once, also when it is created late, and never again whatever comes after its end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.records import SkipRange
from runner.checkpoint.results import OpResult
from tests.unit.runner.fake_node import CLUSTER_ID, FakeLog
from tests.unit.runner.rows import MINUTE_MS, NOON_MS, spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, cancel, operation, running, voter

WINDOW_MS = 60 * MINUTE_MS
SOON_MS = NOON_MS + 10_000


def once(at_ms: int, **changes: Any) -> ops.ScheduleSpec:
    return spec("once", ops.At((at_ms,)), **changes)


def told(one: Voter) -> list[tuple[int | None, str]]:
    """Return planned instant and state of each row, oldest first."""
    return [
        (row.first_ms, f"skipped {row.reason}")
        if isinstance(row, SkipRange)
        else (row.scheduled_for_ms, row.state.value)
        for row in one.runs()
    ]


def stored(one: Voter) -> Any:
    return queries.schedule_named(one.log.db, "demo", "once")


async def finished(one: Voter, *, succeeded: bool = True) -> None:
    worker = FakeWorker(one)
    claim = await worker.launched()
    await worker.report(worker.finish(claim, succeeded=succeeded))


@pytest.mark.parametrize("late_ms", [1, 3_000, 59_000, 61_000, WINDOW_MS - 1_000])
def test_c29_created_late_within_its_window_it_runs_once(late_ms: int) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            at_ms = one.clock.wall_ms() - late_ms
            assert (await one.apply(once(at_ms))).kind == "done"
            await asyncio.sleep(1)
            assert told(one) == [(at_ms, "Pending")]
            if late_ms < WINDOW_MS - 10_000:
                await finished(one)
            await asyncio.sleep(61)
            assert [at for at, _ in told(one)] == [at_ms]
            assert len(one.attempts()) <= 1

    simulate(story)


def test_c29_in_a_union_it_runs_late_and_what_recurs_beside_it_does_not() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            late_ms = one.clock.wall_ms() - 150_000
            union = ops.AnyOf((ops.Cron("* * * * *"), ops.At((late_ms, NOON_MS + 90_000))))
            await one.apply(spec("once", union, overlap="allow"))
            await asyncio.sleep(1)
            assert told(one) == [(late_ms, "Pending")], "no minute before the definition"
            await asyncio.sleep(120)
            assert [at - NOON_MS for at, _ in told(one)] == [late_ms - NOON_MS, 60_000, 90_000, 120_000]

    simulate(story)


@pytest.mark.parametrize("late_ms", [WINDOW_MS + 1_000, 24 * WINDOW_MS])
def test_c29_created_later_than_its_window_it_is_refused_and_nothing_of_it_waits(late_ms: int) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            refused = await one.apply(once(NOON_MS - late_ms), spec("beside"))
            assert (refused.kind, refused.reason) == ("refused", "at_has_passed")
            assert refused.detail["schedule"] == "demo/once"
            assert queries.schedules(one.log.db) == [], "all or none"
            await asyncio.sleep(10)
            assert told(one) == []

    simulate(story)


async def _succeeded(one: Voter) -> str:
    await finished(one)
    return "Succeeded"


async def _failed(one: Voter) -> str:
    await finished(one, succeeded=False)
    return "Failed"


async def _cancelled(one: Voter) -> str:
    (run,) = one.runs()
    assert not isinstance(run, SkipRange)
    await cancel(one, run.run_id)
    return "Cancelled"


async def _missed_for_want_of_a_worker(one: Voter) -> str:
    await asyncio.sleep(30)
    assert [row.reason for row in one.runs()] == ["missed_window"]
    return "Skipped"


ENDINGS = (
    (SOON_MS, _succeeded),
    (SOON_MS, _failed),
    (SOON_MS, _cancelled),
    (NOON_MS - WINDOW_MS + 30_000, _missed_for_want_of_a_worker),
)


@pytest.mark.parametrize(("at_ms", "end"), ENDINGS)
def test_c29_after_its_end_nothing_brings_it_back(at_ms: int, end: Callable[[Voter], Awaitable[str]]) -> None:
    """Three restarts, a change of owners, a snapshot, the same definition again, and an edit of anything else."""
    definition = once(at_ms)

    async def story() -> None:
        log = FakeLog()
        one, two = voter(log), voter(log, name="node2")
        async with running(one, two):
            await one.apply(definition)
            await asyncio.sleep(11)
            ended = [(at_ms, await end(one))]
            one.node.depose("node2")
            two.node.elect()
            await two.driving()
            await two.apply(definition, key="k2")
            await asyncio.sleep(61)
            assert told(two) == ended
        copy = FakeLog(machine=Checkpoint(CLUSTER_ID))
        log.db.backup(copy.db)  # what a snapshot is made with
        for restart in range(3):
            again = voter(copy)
            again.clock.step_ms += 3_700_000
            async with running(again):
                same = await again.apply(definition, key=f"again{restart}")
                assert [each["outcome"] for each in same.detail["schedules"]] == ["unchanged"]
                await asyncio.sleep(61)
                assert told(again) == ended
        async with running(last := voter(copy)):
            last.clock.step_ms += 3_700_000
            edited = await last.apply(msgspec.structs.replace(definition, retry=ops.Retry(attempts=7)), key="edit")
            assert [each["outcome"] for each in edited.detail["schedules"]] == ["changed"]
            for enabled in (False, True):
                await last.runner.submit(ops.SetEnabled(operation(f"{enabled}"), "demo", "once", enabled=enabled))
            await asyncio.sleep(61)
            assert told(last) == ended

    simulate(story)


def test_c29_missed_while_everything_was_down_it_is_on_record_and_stays_missed() -> None:
    async def story() -> None:
        log = FakeLog()
        async with running(one := voter(log)):
            await one.apply(once(SOON_MS))
        for hours in (2, 3, 4):
            late = voter(log)
            late.clock.step_ms += hours * 3_600_000
            async with running(late):
                await asyncio.sleep(5)
                assert told(late) == [(SOON_MS, "skipped missed_window")]

    simulate(story)


def test_c29_editing_it_to_a_later_instant_arms_it_once_more() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(once(SOON_MS))
            await asyncio.sleep(11)
            await finished(one)
            later_ms = SOON_MS + 60_000
            for repeat in range(2):
                await one.apply(once(later_ms), key=f"later{repeat}")
            await asyncio.sleep(60)
            assert told(one) == [(SOON_MS, "Succeeded"), (later_ms, "Pending")]
            await finished(one)
            for n, at_ms in enumerate((SOON_MS, later_ms - 1)):
                refused: OpResult = await one.apply(once(at_ms), key=f"back{n}")
                assert refused.reason == "at_has_passed", "what it has planned already never comes again"
            await asyncio.sleep(61)
            assert told(one) == [(SOON_MS, "Succeeded"), (later_ms, "Succeeded")]
            assert stored(one).spec.trigger == ops.At((later_ms,))

    simulate(story)


def test_c29_moved_before_it_came_it_runs_at_the_new_instant_only() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(once(SOON_MS))
            await one.apply(once(SOON_MS + 30_000), key="k2")
            await asyncio.sleep(60)
            assert told(one) == [(SOON_MS + 30_000, "Pending")]

    simulate(story)


def test_c29_a_schedule_that_becomes_a_one_shot_runs_nothing_it_has_planned_already() -> None:
    """The watermark never goes back, whatever the trigger was before."""

    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(spec("once", ops.Every(9)))
            await asyncio.sleep(11)
            assert told(one) == [(SOON_MS, "Pending")]
            refused: OpResult = await one.apply(once(SOON_MS), key="k2")
            assert refused.reason == "at_has_passed"
            late_ms = one.clock.wall_ms() - 500
            assert (await one.apply(once(late_ms), key="k3")).kind == "done", "late, and not planned so far"
            await asyncio.sleep(1)
            assert told(one) == [(SOON_MS, "Pending"), (late_ms, "skipped overlap")]

    simulate(story)


def test_c29_deleted_and_applied_again_it_runs_only_if_it_never_came() -> None:
    async def story() -> None:
        one = voter()
        delete = ops.Delete(operation("d1"), "demo", "once")
        async with running(one):
            await one.apply(once(SOON_MS))
            await asyncio.sleep(11)
            await finished(one)
            assert (await one.runner.submit(delete)).kind == "done"
            refused: OpResult = await one.apply(once(SOON_MS), key="k2")
            assert refused.reason == "at_has_passed", "it ran, under the same id"
            later_ms = SOON_MS + 20_000
            await one.apply(once(later_ms), key="k3")
            await one.runner.submit(msgspec.structs.replace(delete, operation=operation("d2")))
            await asyncio.sleep(30)
            assert told(one) == [(SOON_MS, "Succeeded")], "deleted before it came"
            assert (await one.apply(once(later_ms), key="k4")).kind == "done"
            await asyncio.sleep(1)
            assert told(one) == [(SOON_MS, "Succeeded"), (later_ms, "Pending")], "created anew, within its window"

    simulate(story)


def test_c29_what_a_restore_has_given_up_never_comes() -> None:
    """Whether it ran in the old lineage, after the image was taken, nobody knows."""

    async def story() -> None:
        log = FakeLog()
        async with running(one := voter(log)):
            await one.apply(once(SOON_MS))
        restored = voter(log)
        restored.clock.step_ms += 30_000
        async with running(restored):
            await restored.runner.submit(ops.Restore(operation("r1")))
            await asyncio.sleep(5)
            assert told(restored) == [(SOON_MS, "skipped restored")]
            assert (await restored.apply(once(SOON_MS), key="k2")).detail["schedules"][0]["outcome"] == "unchanged"
            other = msgspec.structs.replace(once(NOON_MS), name="other", schedule_id=spec("other").schedule_id)
            refused: OpResult = await restored.apply(other, key="k3")
            assert refused.reason == "at_has_passed", "not late by creation either"
            late_ms = restored.clock.wall_ms() - 1_000
            assert (await restored.apply(once(late_ms), key="k4")).kind == "done"
            await asyncio.sleep(1)
            assert told(restored) == [(SOON_MS, "skipped restored"), (late_ms, "Pending")]

    simulate(story)
