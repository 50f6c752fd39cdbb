"""The failover cases of behaviour.md, on virtual time: real runners, one checkpoint, leadership and clocks by decree."""

import asyncio

import pytest

from cluster.outcome import OutcomeUnknown
from runner.checkpoint import ops
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.records import Run, SkipRange
from runner.checkpoint.results import OpResult
from tests.unit.runner.fake_node import CLUSTER_ID, FakeLog
from tests.unit.runner.rows import MINUTE_MS, NOON_MS, spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, elapsed_s, operation, running, tick, voter

MINUTE_S = 60.0


async def until(instant_s: float) -> None:
    """Wait until so many seconds after noon, on the voters' monotonic clock."""
    await asyncio.sleep(instant_s - elapsed_s())


async def in_touch(worker: FakeWorker, instant_s: float) -> None:
    """Let a worker poll until then, as one does that has something running."""
    while elapsed_s() < instant_s:
        await worker.poll(min(5.0, instant_s - elapsed_s()))


async def take_over(new: Voter, *old: Voter) -> None:
    for one in old:
        one.node.depose(new.node.name)
    new.node.elect()
    await new.driving()


def told(one: Voter) -> list[tuple[int | None, str]]:
    """Return minute after noon and state of each row, with the minutes of a range as one row each."""
    rows: list[tuple[int | None, str]] = []
    for row in one.runs():
        if isinstance(row, SkipRange):
            first = (row.first_ms - NOON_MS) // MINUTE_MS
            rows += [(first + n, f"skipped {row.reason}") for n in range(row.count)]
        else:
            planned_ms = row.scheduled_for_ms
            rows.append((None if planned_ms is None else (planned_ms - NOON_MS) // MINUTE_MS, row.state.value))
    return rows


def test_c34_a_new_owner_does_not_force_a_run_beside_one_that_is_going() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        async with running(one, two):
            await one.apply(spec(trigger=ops.Cron("*/2 * * * *")))
            await until(2 * MINUTE_S - 1)
            worker = FakeWorker(one)
            claim = await worker.launched()
            await in_touch(worker, 3.4 * MINUTE_S)
            await take_over(two, one)
            worker.voter = two
            await in_touch(worker, 4 * MINUTE_S - 1)
            assert told(two) == [(2, "Active")], "nothing starts because of the takeover"
            await in_touch(worker, 4 * MINUTE_S + 5)
            assert told(two) == [(2, "Active"), (4, "skipped overlap")]
            assert len(two.attempts()) == 1
            await worker.report(worker.finish(claim))
            worker.drop(claim)
            await until(6 * MINUTE_S + 1)
            assert [row for row in told(two) if row[0] != 4] == [(2, "Succeeded"), (6, "Pending")]

    simulate(story)


@pytest.mark.parametrize("leads_s", [-0.001, 0.001, 0.74])
@pytest.mark.parametrize("lost_s", [-2.6, -0.001, 0.002])
def test_c37_an_instant_in_the_gap_between_two_owners_has_its_one_run(lost_s: float, leads_s: float) -> None:
    """The old owner may stop before the instant, at it, or with its command on the way."""

    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        instant_s = MINUTE_S
        async with running(one, two):
            await one.apply(spec(trigger=ops.Cron("1 12 * * *")))
            await until(instant_s + lost_s)
            one.node.depose("node2")
            await until(max(instant_s + leads_s, elapsed_s()))
            await take_over(two)
            await until(max(instant_s, elapsed_s()) + 2)
            assert told(two) == [(1, "Pending")]
            claim = await FakeWorker(two).launched()
            assert claim.binding.attempt == 1
            assert elapsed_s() < instant_s + 25, "within its window"
            await until(1.5 * MINUTE_S)
            assert len(told(two)) == 1

    simulate(story)


def test_c37_a_materialisation_whose_reply_is_lost_with_the_owner_is_not_made_again() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        async with running(one, two):
            await one.apply(spec(trigger=ops.Cron("1 12 * * *")))
            await until(MINUTE_S - 1)
            one.node.fail = one.node.lose_reply
            await until(MINUTE_S + 0.5)
            assert one.node.fail is None, "the materialisation was on the way"
            await take_over(two, one)
            await until(1.5 * MINUTE_S)
            assert told(two) == [(1, "Pending")]
            assert sum(isinstance(op, ops.Materialise) for c in log.commands for op in c.ops) == 1

    simulate(story)


def test_c40_clocks_that_are_far_apart_fire_an_instant_once_whoever_leads() -> None:
    async def story() -> None:
        log = FakeLog()
        right, fast, slow = (voter(log, name=f"node{n}", voters=3) for n in (1, 2, 3))
        fast.clock.step_ms += 60_000
        slow.clock.step_ms -= 40_000
        for one in (right, fast, slow):
            one.node.peers = [other.clock for other in (right, fast, slow) if other is not one]
        async with running(right, fast, slow):
            await right.apply(spec(trigger=ops.Cron("1 12 * * *")))
            await until(0.5 * MINUTE_S)
            await take_over(fast, right)
            await until(MINUTE_S - 1)
            assert told(fast) == [], "the fast clock alone makes nothing due"
            await until(MINUTE_S + 1)
            assert told(fast) == [(1, "Pending")]
            await take_over(slow, fast)
            await until(1.5 * MINUTE_S)
            assert told(slow) == [(1, "Pending")], "the slow one finds it in the checkpoint"
            made = [c for c in log.commands if any(isinstance(op, ops.Materialise) for op in c.ops)]
            assert [c.now_ms // 1000 for c in made] == [(NOON_MS + MINUTE_MS) // 1000]

    simulate(story)


def test_c43_a_clock_set_back_is_told_and_fires_nothing_twice() -> None:
    """Our policy is the high-water mark: nothing before the clocks reach what is committed, and `status` says why."""

    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(spec(trigger=ops.Cron("* * * * *")))
            one.clock.step_ms += 3 * MINUTE_MS
            await until(50.0)
            assert one.runner.clock_state() == "ok", "wrong, but steady: believed"
            assert (3, "Pending") in told(one)
            before = told(one)
            one.clock.step_ms -= 3 * MINUTE_MS
            seen = set()
            for second in range(51, 180, 3):
                await until(float(second))
                seen.add(one.runner.clock_state())
                assert told(one) == before, "an instant that has its run gets no other one"
            assert seen == {"clock_stepped", "clock_behind"}, "silence without a signal"
            assert one.runner.drives, "the clock on the wall moves no leadership"
            trigger = ops.Trigger(operation("by hand"), "demo", "tick")
            assert (await one.runner.submit(trigger)).kind == "done", "callers are served meanwhile"
            await until(5.5 * MINUTE_S)
            assert one.runner.clock_state() == "ok"
            assert {row for row in told(one) if row[0] is not None} == {
                *before,
                (4, "skipped overlap"),
                (5, "skipped overlap"),
            }, "it goes on by itself, with the minutes that are new"

    simulate(story)


OTHERS = 10_000


def test_c45_a_trigger_whose_reply_was_lost_is_repeated_at_the_next_owner_and_makes_one_run() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        asked = ops.Trigger(operation("K"), "demo", "tick")
        async with running(one, two):
            await one.apply(tick(every_s=86_400))
            one.node.fail = one.node.lose_reply
            with pytest.raises(OutcomeUnknown):
                await one.runner.submit(asked)
            assert len(one.runs()) == 1, "it took effect; only nobody was told"
            await take_over(two, one)
            await until(elapsed_s() + 60)
            assert len(two.runs()) == 1, "nobody repeats it unasked"
            again = await two.runner.submit(asked)
            (run,) = two.runs()
            assert isinstance(run, Run)
            assert (again.kind, again.again, again.detail["run_id"]) == ("done", True, run.run_id)

    simulate(story)


def test_c45_the_key_is_kept_through_many_other_commands_and_in_a_snapshot() -> None:
    async def story() -> None:
        one = voter()
        asked = ops.Trigger(operation("K"), "demo", "tick")
        async with running(one):
            await one.apply(tick(every_s=86_400))
            first = await one.runner.submit(asked)
            for start in range(0, OTHERS, 1_000):
                others = [ops.Trigger(operation(f"o{start + n}"), "demo", "nobody") for n in range(1_000)]
                assert {each.reason for each in await one.runner.submit_all(others)} == {"no_such_schedule"}
            assert (await one.runner.submit(asked)).detail == first.detail
            copy = FakeLog(machine=Checkpoint(CLUSTER_ID))
            one.log.db.backup(copy.db)  # what a snapshot and a backup are made with
            two = voter(copy, name="node2")
        async with running(two):
            repeated: OpResult = await two.runner.submit(asked)
            assert (repeated.again, repeated.detail) == (True, first.detail)
            assert len(two.runs()) == 1

    simulate(story)
