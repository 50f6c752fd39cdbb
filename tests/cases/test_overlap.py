"""C24 and C19: what overlap and an edit make of instants, on virtual time: the real runner, and a worker at its work."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from runner.checkpoint import ops
from runner.checkpoint.records import SkipRange
from tests.unit.runner.fake_node import FakeLog
from tests.unit.runner.rows import MINUTE_MS, NOON_MS, spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, elapsed_s, operation, running, voter
from worker.protocol import Claim

MINUTELY = ops.Cron("* * * * *")
HOUR_MS = 60 * MINUTE_MS


def story_of(story: Callable[[Voter], Any]) -> None:
    async def whole() -> None:
        one = voter()
        async with running(one):
            await story(one)

    simulate(whole)


def told(one: Voter) -> list[tuple[int, str]]:
    """Return minute after noon and state of each planned instant."""
    rows: list[tuple[int, str]] = []
    for row in one.runs():
        if isinstance(row, SkipRange):
            first = (row.first_ms - NOON_MS) // MINUTE_MS
            rows += [(first + n, f"skipped {row.reason}") for n in range(row.count)]
        elif row.scheduled_for_ms is not None:
            rows.append(((row.scheduled_for_ms - NOON_MS) // MINUTE_MS, row.state.value))
    return rows


LASTS_S = 144.0
"""As long, beside a minutely schedule, as twelve minutes beside one of every five."""
STOPS_S = 20.0


@dataclass
class AtWork(FakeWorker):
    """Runs whatever comes for its time, and takes a while to stop it.

    Attributes:
        lasts_s: how long each takes.
        spans: minute of each launch, with the seconds at which it began and ended.
    """

    lasts_s: float = LASTS_S
    spans: list[tuple[int, float, float]] = field(default_factory=list)

    async def until(self, until_s: float) -> None:
        alive: dict[str, tuple[Claim, float, float | None]] = {}
        while elapsed_s() < until_s:
            reply = await self.poll(5.0)
            for claim in reply.claims:
                if (claim.binding.run_id, claim.binding.attempt) not in self.held:
                    self.hold(claim, "accepted")
                    assert (await self.permit(claim)).kind == "granted"
                    alive[claim.binding.run_id] = (claim, elapsed_s(), None)
            for stop in reply.stops:
                claim, since_s, stop_s = alive[stop.run_id]
                alive[stop.run_id] = (claim, since_s, stop_s or elapsed_s())
            for claim, since_s, stop_s in list(alive.values()):
                if stop_s is not None and elapsed_s() - stop_s >= STOPS_S:
                    await self._ended(claim, since_s, self.stopped(claim))
                elif stop_s is None and elapsed_s() - since_s >= self.lasts_s:
                    await self._ended(claim, since_s, self.finish(claim))
                else:
                    continue
                del alive[claim.binding.run_id]

    async def _ended(self, claim: Claim, since_s: float, report: Any) -> None:
        self.spans.append((int(claim.scheduled_for[14:16]), since_s, elapsed_s()))
        await self.report(report)
        self.drop(claim)


def test_c24_skip_runs_what_finds_the_slot_free_and_records_the_rest() -> None:
    async def story(one: Voter) -> None:
        await one.apply(spec(trigger=MINUTELY))
        await AtWork(one).until(7.5 * 60)
        runs = [(minute, kept) for minute, kept in told(one) if kept != "skipped overlap"]
        assert runs == [(1, "Succeeded"), (4, "Succeeded"), (7, "Active")]
        assert [m for m, kept in told(one) if kept == "skipped overlap"] == [2, 3, 5, 6]

    story_of(story)


def test_c24_cancel_previous_starts_only_after_the_stop_is_confirmed() -> None:
    async def story(one: Voter) -> None:
        await one.apply(spec(trigger=MINUTELY, overlap="cancel_previous"))
        worker = AtWork(one)
        await worker.until(4.5 * 60)
        assert told(one) == [(1, "Cancelled"), (2, "Cancelled"), (3, "Cancelled"), (4, "Active")]
        assert [minute for minute, _, _ in worker.spans] == [1, 2, 3]
        for (_, _, ended_s), (minute, began_s, _) in pairwise(worker.spans):
            assert ended_s <= began_s, "never side by side"
            assert minute * 60 + STOPS_S <= began_s < minute * 60 + STOPS_S + 10

    story_of(story)


def test_c24_cancel_previous_waits_for_a_stop_that_nobody_confirms() -> None:
    """What waits is displaced by what comes after it; nothing starts beside work that may be alive."""

    async def story(one: Voter) -> None:
        await one.apply(spec(trigger=MINUTELY, overlap="cancel_previous"))
        worker = FakeWorker(one)
        await asyncio.sleep(58)
        await worker.launched()
        other = FakeWorker(one, name="w2", incarnation="i2", ledger="l2")
        until_s = elapsed_s() + 200
        while elapsed_s() < until_s:
            assert (await other.poll(5.0)).claims == []
        assert told(one) == [(1, "Cancelling"), (2, "Skipped"), (3, "Skipped"), (4, "Pending")]
        assert [(each.state.value, each.unresolved) for each in one.attempts()] == [("Cancelling", True)]

    story_of(story)


def assert_one_after_the_other(worker: AtWork, minutes: list[int]) -> None:
    """Check who ran, in order, each from when the one before ended."""
    assert [minute for minute, _, _ in worker.spans] == minutes
    for (_, _, ended_s), (_, began_s, _) in pairwise(worker.spans):
        assert ended_s <= began_s < ended_s + 6


def test_c24_queue_one_keeps_the_one_that_waits_and_skips_what_comes_after_it() -> None:
    async def story(one: Voter) -> None:
        await one.apply(spec(trigger=MINUTELY, overlap="queue_one"))
        worker = AtWork(one)
        await worker.until(8.5 * 60)
        runs = [(minute, kept) for minute, kept in told(one) if kept != "skipped overlap"]
        assert runs == [(1, "Succeeded"), (2, "Succeeded"), (4, "Succeeded"), (6, "Active")]
        assert [m for m, kept in told(one) if kept == "skipped overlap"] == [3, 5, 7, 8]
        assert_one_after_the_other(worker, [1, 2, 4])

    story_of(story)


def test_c24_queue_all_lets_so_many_wait_and_counts_what_is_too_many() -> None:
    async def story(one: Voter) -> None:
        await one.apply(spec(trigger=MINUTELY, overlap="queue_all", queue_limit=2))
        worker = AtWork(one)
        await worker.until(8.5 * 60)
        runs = [(minute, kept) for minute, kept in told(one) if kept != "skipped queue_full"]
        done = [(minute, "Succeeded") for minute in (1, 2, 3)]
        assert runs == [*done, (4, "Active"), (6, "Pending")]
        assert [m for m, kept in told(one) if kept == "skipped queue_full"] == [5, 7, 8]
        assert_one_after_the_other(worker, [1, 2, 3])

    story_of(story)


@pytest.mark.parametrize(("limit", "skipped"), [(10, []), (2, [3, 6])])
def test_c24_allow_runs_all_side_by_side_as_far_as_its_limit_goes(limit: int, skipped: list[int]) -> None:
    async def story(one: Voter) -> None:
        await one.apply(spec(trigger=MINUTELY, overlap="allow", max_concurrent=limit))
        worker = AtWork(one)
        await worker.until(6.5 * 60)
        assert [m for m, kept in told(one) if kept == "skipped overlap"] == skipped
        ran = [m for m in range(1, 7) if m not in skipped]
        assert [m for m, kept in told(one) if kept in {"Active", "Succeeded"}] == ran
        for minute, began_s, _ in worker.spans:
            assert minute * 60 <= began_s < minute * 60 + 6, "nobody waits for anybody"

    story_of(story)


def test_c24_what_waits_longer_than_its_window_is_missed() -> None:
    async def story(one: Voter) -> None:
        catch_up = ops.CatchUp(window_s=70)
        await one.apply(spec(trigger=MINUTELY, overlap="queue_one", catch_up=catch_up))
        await AtWork(one).until(4.5 * 60)
        assert told(one) == [(1, "Succeeded"), (2, "Skipped"), (3, "skipped overlap"), (4, "Active")]
        assert [row.reason for row in one.runs() if not isinstance(row, SkipRange)] == [None, "missed_window", None]

    story_of(story)


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "queue_all", "cancel_previous", "allow"])
def test_c24_what_is_caught_up_runs_one_after_the_other_whatever_the_policy(overlap: Any) -> None:
    """Down from before minute 1 to after minute 4; all four run, oldest first, and none beside another."""

    async def whole() -> None:
        log = FakeLog()
        async with running(one := voter(log)):
            await one.apply(spec(trigger=MINUTELY, overlap=overlap, catch_up=ops.CatchUp(policy="all")))
        again = voter(log)
        again.clock.step_ms += round(5.1 * MINUTE_MS)
        async with running(again):
            worker = AtWork(again, lasts_s=5.0)
            await worker.until(elapsed_s() + 45)
            late = [(minute, kept) for minute, kept in told(again) if minute <= 4]
            assert late == [(minute, "Succeeded") for minute in (1, 2, 3, 4)]
            ran = [row.caught_up for row in again.runs() if not isinstance(row, SkipRange)]
            assert ran == ["all", "all", "all", "all", None]
            began = [span for span in sorted(worker.spans, key=lambda span: span[1]) if span[0] <= 4]
            assert [minute for minute, _, _ in began] == [1, 2, 3, 4]
            assert all(ended_s <= began_s for (_, _, ended_s), (_, began_s, _) in pairwise(began))

    simulate(whole)


ELEVEN_PM, FIVE_AM = ops.Cron("0 23 * * *"), ops.Cron("0 5 * * *")


async def _edited(one: Voter) -> None:
    await one.apply(spec(trigger=FIVE_AM), key="edit")


async def _applied_anew(one: Voter) -> None:
    await one.runner.submit(ops.Delete(operation("delete"), "demo", "tick"))
    await one.apply(spec(trigger=FIVE_AM), key="anew")


async def _resumed(one: Voter) -> None:
    await one.runner.submit(ops.SetEnabled(operation("off"), "demo", "tick", enabled=False))
    await one.apply(spec(trigger=FIVE_AM), key="edit")
    await asyncio.sleep(1)
    await one.runner.submit(ops.SetEnabled(operation("on"), "demo", "tick", enabled=True))


async def _restored(one: Voter) -> None:
    await _edited(one)
    await one.runner.submit(ops.Restore(operation("restore")))


@pytest.mark.parametrize("change", [_edited, _applied_anew, _resumed, _restored])
def test_c19_an_instant_counts_only_if_it_is_later_than_what_planned_it(
    change: Callable[[Voter], Awaitable[None]],
) -> None:
    """At noon `0 23`; at nine the next morning `0 5`, which lay between: it first runs the morning after."""

    async def whole() -> None:
        log = FakeLog()

        async def at(
            after_ms: int, seconds: float, doing: Callable[[Voter], Awaitable[None]] | None = None
        ) -> list[Any]:
            one = voter(log)
            one.clock.step_ms += after_ms - round(elapsed_s() * 1000)
            async with running(one):
                if doing is not None:
                    await doing(one)
                await asyncio.sleep(seconds)
                return [(minute // 60, kept) for minute, kept in told(one)]

        async def created(one: Voter) -> None:
            await one.apply(spec(trigger=ELEVEN_PM))

        async def worked(one: Voter) -> None:
            await AtWork(one, lasts_s=2.0).until(elapsed_s() + 30)

        assert await at(0, 65, created) == []
        assert await at(11 * HOUR_MS - 10_000, 1, worked) == [(11, "Succeeded")]
        assert await at(21 * HOUR_MS, 65, change) == [(11, "Succeeded")], "nothing at the change"
        assert await at(35 * HOUR_MS - 10_000, 75) == [(11, "Succeeded")], "nor at 23:00"
        assert await at(41 * HOUR_MS - 10_000, 1, worked) == [(11, "Succeeded"), (41, "Succeeded")]

    simulate(whole)
