"""The calendar's cases of behaviour.md: what an edit, other time zone data, a downtime and jitter do to occurrences."""

import asyncio
import sqlite3
from dataclasses import replace
from typing import Literal
from zoneinfo import ZoneInfo

import pytest

from runner.agenda import aim_of, due
from runner.calendar import local_clock, tally, timing
from runner.checkpoint import ops, queries
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.records import Run, Schedule, SkipRange
from runner.ids import instant_text
from tests.unit.runner.fake_node import CLUSTER_ID, FakeLog
from tests.unit.runner.rows import MINUTE_MS, NOON_MS, spec
from tests.unit.runner.rows import schedule as schedule_row
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import Voter, running, voter

HOUR_MS, DAY_MS = 60 * MINUTE_MS, 24 * 60 * MINUTE_MS
NEXT_MORNING_MS = NOON_MS - 12 * HOUR_MS + DAY_MS  # 2026-03-30T00:00Z


def planned(one: Voter) -> list[str]:
    return [instant_text(row.scheduled_for_ms) for row in one.runs() if isinstance(row, Run) and row.scheduled_for_ms]


def stored(one: Voter) -> Schedule:
    found = queries.schedule_named(one.log.db, "demo", "tick")
    assert found is not None
    return found


def later(log: FakeLog, at_ms: int) -> Voter:
    """Return another voter that starts at an instant."""
    found = voter(log, name="node2")
    found.clock.step_ms += at_ms - found.clock.wall_ms()
    return found


def test_c17a_a_change_of_zone_fires_nothing_and_the_next_instant_is_the_new_zones() -> None:
    """Daily at 12:05 in UTC; at 12:00 it becomes 12:05 in Ho Chi Minh City (+07), which was at 05:05Z today."""

    async def story() -> None:
        one = voter(log := FakeLog())
        async with running(one):
            await one.apply(spec("tick", ops.Cron("5 12 * * *")))
            await asyncio.sleep(5)
            await one.apply(spec("tick", ops.Cron("5 12 * * *"), timezone="Asia/Ho_Chi_Minh"), key="k2")
            await asyncio.sleep(6 * 60)
            assert one.runs() == [], "neither at the edit nor at 12:05Z"
            assert aim_of(stored(one)).next_ms == NEXT_MORNING_MS + 5 * HOUR_MS + 5 * MINUTE_MS
        two = later(log, NEXT_MORNING_MS + 5 * HOUR_MS + 4 * MINUTE_MS)
        async with running(two):
            await asyncio.sleep(62)
            assert planned(two) == ["2026-03-30T05:05:00Z"]

    simulate(story)


def test_c17b_other_zone_data_moves_what_is_to_come_and_repeats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daily at 14:01 in Berlin, which is 12:01Z; then Berlin has no summer time any more, and it is 13:01Z."""

    async def story() -> None:
        one = voter(log := FakeLog())
        async with running(one):
            await one.apply(spec("tick", ops.Cron("1 14 * * *"), timezone="Europe/Berlin", overlap="allow"))
            await asyncio.sleep(65)
            assert planned(one) == ["2026-03-29T12:01:00Z"]
            assert aim_of(stored(one)).next_ms == NOON_MS + DAY_MS + MINUTE_MS
        for module in (timing, tally, local_clock):
            if hasattr(module, "zone"):
                monkeypatch.setattr(module, "zone", lambda _: ZoneInfo("Etc/GMT-1"))
        two = later(log, NOON_MS + HOUR_MS + 2 * MINUTE_MS)
        async with running(two):
            await asyncio.sleep(5)
            assert planned(two) == ["2026-03-29T12:01:00Z", "2026-03-29T13:01:00Z"]
            assert aim_of(stored(two)).next_ms == NOON_MS + DAY_MS + HOUR_MS + MINUTE_MS

    simulate(story)


def test_c17c_what_is_committed_is_never_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log = FakeLog()

    async def story() -> None:
        one = voter(log)
        async with running(one):
            await one.apply(spec("tick", ops.Cron("* * * * *"), timezone="Europe/Berlin", exclude=("sat",)))
            await asyncio.sleep(150)
            assert len(one.runs()) == 2

    simulate(story)

    def unknown(name: str) -> ZoneInfo:
        raise AssertionError(f"a follower looked up {name}")

    for module in (timing, tally):
        monkeypatch.setattr(module, "zone", unknown)
    follower = sqlite3.connect(":memory:", isolation_level=None)
    machine = Checkpoint(CLUSTER_ID)
    machine.create(follower)
    for command in log.commands:
        machine.apply(follower, ops.encode(command))
    for table in ("runs", "skips", "schedules"):
        rows = f"SELECT * FROM {table}"
        assert follower.execute(rows).fetchall() == log.db.execute(rows).fetchall()


@pytest.mark.parametrize(("policy", "minutes"), [("all", [1, 2, 3, 4]), ("latest", [4]), ("none", [])])
def test_c21_after_a_downtime_as_many_run_as_the_policy_says(
    policy: Literal["all", "latest", "none"], minutes: list[int]
) -> None:
    """Minutely until 12:04, down from 12:00:30 to 12:05:30."""

    async def story() -> None:
        one = voter(log := FakeLog())
        async with running(one):
            minutely = spec(
                "tick",
                ops.Cron("* * * * *"),
                end_ms=NOON_MS + 4 * MINUTE_MS,
                overlap="allow",
                catch_up=ops.CatchUp(3_600, policy),
            )
            await one.apply(minutely)
            await asyncio.sleep(30)
        two = later(log, NOON_MS + 5 * MINUTE_MS + 30_000)
        async with running(two):
            await asyncio.sleep(5)
            runs = [row for row in two.runs() if isinstance(row, Run)]
            assert [row.scheduled_for_ms for row in runs] == [NOON_MS + n * MINUTE_MS for n in minutes]
            assert all(row.caught_up == policy for row in runs)
            assert all(row.created_ms - (row.scheduled_for_ms or 0) > MINUTE_MS for row in runs), "late, and it says so"
            skipped = [(row.count, row.reason) for row in two.runs() if isinstance(row, SkipRange)]
            assert skipped == ([(4 - len(minutes), "missed_window")] if len(minutes) < 4 else [])

    simulate(story)


def starts_of(row: Schedule, count: int, step_ms: int, leaders: int) -> list[tuple[int, int]]:
    """Let owners that follow each other plan so many slots, each from the stored watermark; instant and start of each."""
    found: list[tuple[int, int]] = []
    for n in range(count):
        now_ms = NOON_MS + (n + 1) * step_ms + n % leaders  # each owner looks a little later than the one before
        (plan,) = due([row], {row.schedule_id: aim_of(row)}, now_ms, 10)
        found += zip(plan.due, plan.starts_ms, strict=True)
        assert plan.missed == ()
        row = replace(row, watermark_ms=plan.until_ms)
    return found


def jittered(name: str, trigger: ops.Cron | ops.Every, jitter_ms: int) -> Schedule:
    return replace(schedule_row(name, trigger), spec=spec(name, trigger, jitter_ms=jitter_ms))


def test_c26_jitter_makes_neither_more_nor_fewer_runs() -> None:
    found = starts_of(jittered("s1", ops.Cron("0 * * * *"), 120_000), 1_000, HOUR_MS, 1)
    assert [at_ms for at_ms, _ in found] == [NOON_MS + (n + 1) * HOUR_MS for n in range(1_000)]
    assert all(0 <= start_ms - at_ms <= 120_000 for at_ms, start_ms in found)
    assert len({start_ms - at_ms for at_ms, start_ms in found}) > 900, "each has a delay of its own"


def test_c28_jitter_does_not_add_up_and_is_each_schedules_own_whoever_leads() -> None:
    one, again, other = (
        starts_of(jittered(name, ops.Every(60), 20_000), 1_000, MINUTE_MS, leaders)
        for name, leaders in (("s1", 4), ("s1", 1), ("s2", 4))
    )
    for found in (one, other):
        assert [at_ms for at_ms, _ in found] == [NOON_MS + (n + 1) * MINUTE_MS for n in range(1_000)]
        assert all(0 <= start_ms - at_ms <= 20_000 for at_ms, start_ms in found)
    assert one == again
    assert sum(mine == theirs for (_, mine), (_, theirs) in zip(one, other, strict=True)) < 10
