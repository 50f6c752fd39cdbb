"""What the owner does while the checkpoint is frozen, and after (DESIGN 4)."""

import asyncio

from runner.checkpoint import ops
from runner.checkpoint.records import RunState, SkipRange
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, operation, running, tick, voter


async def set_frozen(one: Voter, key: str, *, frozen: bool) -> None:
    assert (await one.runner.submit(ops.SetFrozen(operation(key), frozen))).kind == "done"


def rows(one: Voter) -> list[tuple[str, str | None, int]]:
    return [
        (row.state.value if not isinstance(row, SkipRange) else "Skipped", row.reason, getattr(row, "count", 1))
        for row in one.runs()
    ]


def test_a_frozen_owner_plans_and_claims_nothing_and_proposes_nothing_that_would_be_refused() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            worker = FakeWorker(one)
            await worker.poll()
            await one.apply(tick(every_s=1))
            await set_frozen(one, "f1", frozen=True)
            before = len(one.log.commands)
            for _ in range(20):
                await worker.poll(1.0)
            assert one.attempts() == []
            assert len(one.log.commands) == before
            await set_frozen(one, "f2", frozen=False)
            claim = await worker.claim()
            assert claim.binding.attempt == 1

    simulate(story)


def test_what_fell_due_meanwhile_follows_the_catch_up_policy() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=100))
            await set_frozen(one, "f1", frozen=True)
            await asyncio.sleep(390)  # three instants, the newest 90 s ago when the freeze ends
            assert one.runs() == []
            await set_frozen(one, "f2", frozen=False)
            await asyncio.sleep(2)
            assert rows(one) == [("Skipped", "missed_window", 2), (RunState.PENDING.value, None, 1)]

    simulate(story)


def test_an_edit_while_frozen_puts_what_it_ends_on_record_and_leaves_alone_what_it_does_not_change() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            changed, unchanged = tick("changed", every_s=10), tick("unchanged", every_s=10)
            await one.apply(changed, unchanged)
            await set_frozen(one, "f1", frozen=True)
            await asyncio.sleep(35)
            again = await one.apply(tick("changed", every_s=20), unchanged, key="k2")
            assert [each["outcome"] for each in again.detail["schedules"]] == ["changed", "unchanged"]
            assert rows(one) == [("Skipped", "frozen", 3)]
            await set_frozen(one, "f2", frozen=False)
            await asyncio.sleep(2)
            assert [row for row in rows(one) if row[0] == "Pending"] == [("Pending", None, 1)] * 3

    simulate(story)


def test_a_freeze_and_an_edit_in_one_turn_lose_no_instant() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=10))
            await set_frozen(one, "f1", frozen=True)
            await asyncio.sleep(35)
            thaw, edit = ops.SetFrozen(operation("f2"), False), ops.Apply(operation("k2"), (), (tick(every_s=20),))
            results = await one.runner.submit_all([thaw, edit])
            assert [result.kind for result in results] == ["done", "done"]
            assert [row[:2] for row in rows(one)] == [("Pending", None)] * 3

    simulate(story)
