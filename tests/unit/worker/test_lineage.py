"""A ledger belongs to one cluster, and to the newest generation of it that it heard of (DESIGN 4: Restore)."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.worker.test_ledger import BINDING, opened
from tests.unit.worker.virtual_time import VirtualLoop, run
from tests.unit.worker.world import World
from worker.ledger import Key
from worker.ledger_row import Consume, Denied, Reserve, RowState
from worker.lineage import Kin, Lineage, kin_of
from worker.protocol import Finish, Permits, Poll, PollReply, Reports

RUN: Key = ("r1", 1)


@pytest.mark.parametrize(
    ("known", "heard", "kin"),
    [
        (("", 0), ("c", 1), Kin.LATER),
        (("c", 1), ("c", 1), Kin.SAME),
        (("c", 1), ("c", 2), Kin.LATER),
        (("c", 2), ("c", 1), Kin.EARLIER),
        (("c", 1), ("d", 1), Kin.FOREIGN),
        (("c", 1), ("d", 9), Kin.FOREIGN),
        (("c", 1), ("", 9), Kin.FOREIGN),
    ],
)
def test_what_an_owner_is_to_a_ledger(known: tuple[str, int], heard: tuple[str, int], kin: Kin) -> None:
    assert kin_of(Lineage(*known), Lineage(*heard)) is kin


def answered_by(world: World, **lineage: object) -> None:
    world.owner.alter = lambda reply: replace(reply, **lineage)


async def lineage_after(world: World, polls: int = 3) -> Lineage:
    """Run one life until it has polled so often, and return what its ledger knows then."""
    world.sent.clear()

    def enough() -> bool:
        return sum(isinstance(message, Poll) for message in world.sent) > polls

    await world.life(enough)
    ledger = world.open()
    try:
        return ledger.lineage
    finally:
        ledger.close()


def test_every_message_says_which_lineage_the_ledger_knows(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    run(loop, world.life())
    polls = [(m.cluster_id, m.generation) for m in world.sent if isinstance(m, Poll)]
    assert polls[0] == ("", 0)
    assert set(polls[1:]) <= {("c", 1)}
    told = [(m.cluster_id, m.generation) for m in world.sent if isinstance(m, Permits | Reports)]
    assert set(told) == {("c", 1)}


def test_an_owner_of_another_cluster_is_refused_for_ever(loop: VirtualLoop, world: World) -> None:
    assert run(loop, lineage_after(world)) == Lineage("c", 1)
    answered_by(world, cluster_id="d", generation=9, retired=True)
    world.owner.ready = [RUN]
    assert run(loop, lineage_after(world)) == Lineage("c", 1)
    assert world.submitted == {}
    assert all(m.cluster_id == "c" for m in world.sent if isinstance(m, Poll))
    answered_by(world)
    world.owner.attempts.clear()
    world.owner.ready = [RUN]
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Succeeded"


def test_an_earlier_generation_is_ignored_in_this_life_and_the_next(loop: VirtualLoop, world: World) -> None:
    answered_by(world, generation=3)
    assert run(loop, lineage_after(world)) == Lineage("c", 3)
    answered_by(world, generation=2, retired=True)
    world.owner.ready = [RUN]
    assert run(loop, lineage_after(world)) == Lineage("c", 3)
    assert world.submitted == {}


def test_what_was_reserved_under_an_earlier_generation_is_fenced_and_never_launched(
    loop: VirtualLoop, world: World
) -> None:
    world.owner.ready = [RUN]
    world.owner.denial = "not_due"  # so that it keeps asking
    rows = []

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: any(isinstance(m, Permits) for m in world.sent))
                answered_by(world, generation=2)
                await world.holds(lambda: not worker.live)
                world.owner.denial = None  # a grant now would be one of the old lineage
                ledger = worker._ledger
                rows.append(ledger.row(*RUN))
                await world.holds(lambda: world.owner.attempts[RUN].state == "NotLaunched")
                worker.drain()

    run(loop, story())
    (row,) = rows
    assert row is not None
    assert row.state is RowState.FENCED
    assert row.evidence.startswith("the checkpoint was restored (generation 2)")
    assert world.submitted[RUN] == 0


def test_running_work_goes_on_and_is_reported_as_it_ended(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.work_s = 20.0

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: world.submitted[RUN] == 1)
                answered_by(world, generation=2)
                await world.holds(lambda: any(isinstance(r, Finish) for r in world.owner.attempts[RUN].heard))
                worker.drain()

    run(loop, story())
    assert world.owner.attempts[RUN].state == "Succeeded"


def test_a_claim_of_another_lineage_than_the_owner_says_is_not_taken(loop: VirtualLoop, world: World) -> None:
    def foreign(reply: PollReply) -> PollReply:
        claims = [replace(claim, binding=replace(claim.binding, generation=2)) for claim in reply.claims]
        return replace(reply, claims=claims)

    world.owner.alter = foreign
    world.owner.ready = [RUN]
    run(loop, lineage_after(world))
    assert world.submitted == {}
    assert world.rows_unanswered() == 0


def test_a_lineage_is_on_disk_with_the_fences_that_it_brings(folder: Path) -> None:
    ledger = opened(folder / "w1")
    assert ledger.lineage == Lineage()
    ledger.adopt(Lineage("c", 1), "first")
    assert ledger.lineage == Lineage("c", 1)
    reserved, consumed = replace(BINDING, run_id="r1", generation=1), replace(BINDING, run_id="r2", generation=1)
    for binding in (reserved, consumed):
        ledger.step(binding.run_id, 1, Reserve(binding, "x"))
    grant = Consume(BINDING.incarnation, 7, 0.0, 60.0)
    ledger.consume("r2", 1, grant)
    assert ledger.adopt(Lineage("c", 2), "restored") == [("r1", 1)]
    ledger.close()
    again = opened(folder / "w1")
    assert again.lineage == Lineage("c", 2)
    first, second = again.row("r1", 1), again.row("r2", 1)
    assert first is not None
    assert second is not None
    assert (first.state, first.evidence, second.state) == (RowState.FENCED, "restored", RowState.CONSUMED)
    assert isinstance(again.consume("r1", 1, grant), Denied)
    again.close()


@pytest.mark.parametrize("with_row", [True, False])
def test_a_ledger_of_the_format_before_learns_its_lineage_from_its_rows(folder: Path, *, with_row: bool) -> None:
    ledger = opened(folder / "w1")
    if with_row:
        ledger.step("r1", 1, Reserve(replace(BINDING, run_id="r1", cluster_id="c7", generation=3), "x"))
    ledger.close()
    with sqlite3.connect(folder / "w1" / "ledger.db") as db:
        db.execute("DELETE FROM ledger WHERE name IN ('cluster_id', 'generation')")
        db.execute("PRAGMA user_version = 1")
    db.close()
    again = opened(folder / "w1")
    assert again.lineage == (Lineage("c7", 3) if with_row else Lineage())
    again.close()
