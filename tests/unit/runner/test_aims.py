"""A thousand schedules never take the loop away: work per turn is counted, whatever the calendar costs."""

import asyncio
import heapq
import sqlite3
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from runner import agenda
from runner import aims as aims_module
from runner.aims import MAX_AIMED, MAX_DUE, SPARE, Aims
from runner.aside import plan_of, subject_of
from runner.checkpoint import ops
from runner.checkpoint.ops import Cron, Every
from runner.checkpoint.records import Run, Schedule, SkipRange
from tests.unit.runner.fake_node import FakeLog
from tests.unit.runner.rows import NOON_MS, schedule, spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import Voter, operation, running, tick, triggered, voter

RARE = Cron("0 0 29 2 */7")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Count looks into the calendar for the next instant of a schedule."""
    looked: list[None] = []

    def counted(*asked: object) -> object:
        looked.append(None)
        return original(*asked)

    original = agenda.next_occurrence
    monkeypatch.setattr(agenda, "next_occurrence", counted)
    return looked


def test_an_aim_is_reckoned_again_only_when_definition_or_watermark_moved(looks: list[None]) -> None:
    aims = Aims()
    aims.line_up(["s1"])
    assert not aims.complete
    assert aims.wanted(NOON_MS) == ("s1",)
    assert aims.take([schedule()]) == []
    assert aims.complete
    assert (aims.next_look_ms, len(looks)) == (NOON_MS + 1_000, 1)
    aims.take([schedule(revision=9)])
    assert len(looks) == 1, "neither moved"
    aims.take([schedule(watermark_ms=NOON_MS + 1_000)])
    assert (aims.next_look_ms, len(looks)) == (NOON_MS + 2_000, 2)
    aims.forget(["s1"])
    assert (aims.next_look_ms, aims.complete) == (None, False)
    aims.take([schedule(enabled=False)])
    assert (aims.known, aims.complete) == ({}, True)


def test_a_turn_reads_those_due_longest_and_the_first_in_line() -> None:
    rows = [schedule(f"s{n:04}", Every(1 + n)) for n in range(MAX_DUE + 10)]
    aims = Aims()
    aims.line_up(row.schedule_id for row in rows)
    for slice_ in _batches(rows):
        assert aims.wanted(NOON_MS) == tuple(row.schedule_id for row in slice_)
        aims.take(slice_)
    assert aims.wanted(NOON_MS) == ()
    assert aims.wanted(NOON_MS + 3_000) == ("s0000", "s0001", "s0002")
    assert len(aims.wanted(NOON_MS + 3_600_000)) == MAX_DUE
    aims.forget(["s0000"])
    assert aims.wanted(NOON_MS + 2_000) == ("s0001", "s0000"), "what was changed stands in line, not among the due"


def _batches(rows: list[Schedule]) -> list[tuple[Schedule, ...]]:
    return [tuple(rows[at : at + MAX_AIMED]) for at in range(0, len(rows), MAX_AIMED)]


def test_a_pulse_touches_what_is_due_however_many_schedules_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[object] = []

    def counted(heap: list[object]) -> object:
        touched.append(None)
        return original(heap)

    original = heapq.heappop
    monkeypatch.setattr(aims_module, "heappop", counted)
    for size in (100, 10_000):
        aims = Aims()
        for n in range(size):
            every_s = 10 + n % 7 if n < 3 else 3_600
            aims.take([schedule(f"s{n}", Every(every_s))])
        assert aims.next_look_ms == NOON_MS + 10_000
        touched.clear()
        assert aims.wanted(NOON_MS + 30_000) == ("s0", "s1", "s2")
        assert len(touched) == 3


def test_however_many_are_set_aside_the_others_are_read() -> None:
    rows = [schedule(f"s{n:04}", Every(1)) for n in range(MAX_DUE)] + [schedule("late", Every(9))]
    aims = Aims()
    for row in rows:
        aims.take([row])
    now_ms = NOON_MS + 10_000
    assert "late" not in aims.wanted(now_ms)
    for _ in range(2):
        assert aims.wanted(now_ms, lambda one: one != "late") == ("late",)
    assert len(aims.wanted(now_ms)) == MAX_DUE, "they are due still"


def test_a_plan_is_known_by_its_schedule_before_and_after_it_is_drafted() -> None:
    plan = ops.Materialise("s1", schedule_revision=5, after_ms=1, until_ms=2, missed=(), due=())
    assert subject_of(plan) == plan_of("s1")


def test_what_is_outdated_does_not_pile_up() -> None:
    aims = Aims()
    for n in range(5_000):
        aims.forget(["s1"])
        aims.take([schedule("s1", Every(3_600), watermark_ms=NOON_MS + n)])
    assert len(aims._heap) <= SPARE + 3
    assert aims.wanted(NOON_MS + 7_200_000) == ("s1",)


def test_no_call_reckons_more_than_its_share(looks: list[None]) -> None:
    rows = [schedule(f"s{n}", RARE) for n in range(3 * MAX_AIMED)]
    aims = Aims()
    aims.line_up(row.schedule_id for row in rows)
    for turn in range(1, 4):
        assert not aims.complete
        aims.take(rows)
        assert len(looks) == turn * MAX_AIMED
    assert aims.complete


def test_a_zone_that_is_gone_is_told_once() -> None:
    bad = schedule("s2", Cron("* * * * *"), timezone="Mars/Base")
    aims = Aims()
    aims.line_up(["s2"])
    ((schedule_id, fault),) = aims.take([bad])
    assert schedule_id == "s2"
    assert "Mars/Base" in fault
    assert (aims.take([bad]), aims.complete, aims.next_look_ms) == ([], True, None)


async def grown(log: FakeLog, *specs: ops.ScheduleSpec) -> None:
    """Let a first owner apply the schedules, and go."""
    first = voter(log)
    async with running(first):
        assert (await first.apply(*specs)).kind == "done"


def shares(two: Voter, looks: list[None], first_turn: Callable[[], None] = lambda: None) -> list[int]:
    """Read as the real node does, without giving way, and count the looks into the calendar at each turn's read."""
    seen: list[int] = []

    async def read(query: Callable[[sqlite3.Connection], Any]) -> Any:
        if two.runner.drives:
            seen.append(len(looks))
            if len(seen) == 1:
                first_turn()
        return query(two.log.db)

    two.node.read = read
    return seen


def most(seen: list[int]) -> int:
    return max(after - before for before, after in pairwise(seen))


def rare_schedules() -> list[ops.ScheduleSpec]:
    return [spec(f"rare{n}", RARE, schedule_id=f"id{n:04}") for n in range(1_000)]


def test_a_new_owner_of_a_thousand_rare_schedules_reckons_in_slices_and_serves_meanwhile(looks: list[None]) -> None:
    async def story() -> None:
        log = FakeLog()
        await grown(log, *rare_schedules()[1:], tick("tick"))
        two = voter(log, name="node2")
        looks.clear()
        asked: list[asyncio.Task[str]] = []
        answered_at: list[int] = []

        def ask() -> None:
            asked.append(asyncio.get_running_loop().create_task(triggered(two)))
            asked[0].add_done_callback(lambda _: answered_at.append(len(looks)))

        seen = shares(two, looks, ask)
        async with running(two):
            await asyncio.sleep(0.5)
            assert two.runner.tenure is not None
            assert two.runner.tenure.aims.complete
            assert most(seen) <= 2 * MAX_AIMED
            assert answered_at[0] < 1_000 <= len(looks), "a caller is answered before the calendar is known"
            assert await asked[0]
            epoch = two.runner.epoch
            await asyncio.sleep(3)
            assert two.runner.epoch == epoch
            assert any(isinstance(row, SkipRange) for row in two.runs()), "what falls due is decided: it overlaps"

    simulate(story)


def test_between_two_slices_everything_else_of_the_process_runs(looks: list[None]) -> None:
    async def story() -> None:
        log = FakeLog()
        await grown(log, *rare_schedules())
        two = voter(log, name="node2")
        looks.clear()
        beats: list[int] = []

        def beat() -> None:
            beats.append(len(looks))
            if two.runner.tenure is not None and not two.runner.tenure.aims.complete:
                asyncio.get_running_loop().call_soon(beat)

        shares(two, looks, beat)
        async with running(two):
            await asyncio.sleep(0.5)
        assert most(beats) <= 2 * MAX_AIMED
        assert beats[-1] == 1_000

    simulate(story)


def test_an_instant_that_falls_due_while_aims_are_unknown_is_not_missed(looks: list[None]) -> None:
    async def story() -> None:
        log = FakeLog()
        names = [f"t{n:04}" for n in range(400)]
        await grown(log, *(tick(name, every_s=3_600, schedule_id=name) for name in names))
        two = voter(log, name="node2")
        two.clock.step_ms += 3_601_000
        async with running(two):
            await asyncio.sleep(3)
        made = Counter(row.schedule for row in _planned(two))
        assert made == Counter(names), "each once"
        assert all(row.scheduled_for_ms == _planned(two)[0].scheduled_for_ms for row in _planned(two))
        assert looks

    simulate(story)


def test_an_edit_of_many_schedules_after_a_takeover_waits_until_their_instants_are_known(looks: list[None]) -> None:
    async def story() -> None:
        log = FakeLog()
        names = [f"t{n:04}" for n in range(300)]
        await grown(log, *(tick(name, every_s=60, schedule_id=name) for name in names))
        two = voter(log, name="node2")
        two.clock.step_ms += 61_000
        looks.clear()
        edit = ops.Apply(operation("k2"), (), tuple(tick(name, every_s=61, schedule_id=name) for name in names))
        asked: list[asyncio.Task[Any]] = []
        seen = shares(two, looks, lambda: asked.append(asyncio.get_running_loop().create_task(two.runner.submit(edit))))
        async with running(two):
            await asyncio.sleep(0.5)
            result = await asked[0]
            assert {each["outcome"] for each in result.detail["schedules"]} == {"changed"}
            assert most(seen) <= 2 * MAX_AIMED
            await asyncio.sleep(1)
        assert Counter(row.schedule for row in _planned(two)) == Counter(names), "what was due is on record, once"

    simulate(story)


def test_a_commit_makes_only_what_it_changed_be_reckoned_again(looks: list[None]) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(*(spec(f"rare{n}", RARE, schedule_id=f"id{n:04}") for n in range(200)))
            await one.apply(tick("tick", every_s=1), key="k2")
            await asyncio.sleep(0.5)
            looks.clear()
            await asyncio.sleep(10)
            assert 0 < len(looks) <= 11, "one for each second's instant"

    simulate(story)


def _planned(one: Voter) -> list[Run]:
    return [row for row in one.runs() if isinstance(row, Run) and row.trigger_id is None]
