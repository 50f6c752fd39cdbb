"""A restore under a driving owner (DESIGN 4): who is answered, what is planned, what workers hear."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from runner.admission.lineage import LineageRefused
from runner.admission.routes import problem_of
from runner.agenda import Bar, bars, catch_up, due
from runner.checkpoint import ops, queries
from runner.checkpoint.records import Head, SkipRange
from tests.unit.runner.fake_node import CLUSTER_ID
from tests.unit.runner.rows import NOON_MS, schedule
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, elapsed_s, operation, running, tick, voter
from worker.protocol import Fences, Permits, PollReply, Reports


async def restore(one: Voter, key: str = "r1") -> int:
    generation = (await one.runner.submit(ops.Restore(operation(key)))).detail["generation"]
    assert isinstance(generation, int)
    return generation


def skips(one: Voter) -> list[tuple[str, int]]:
    return [(row.reason, row.count) for row in one.runs() if isinstance(row, SkipRange)]


async def ask(one: Voter, worker: FakeWorker, kind: str, **lineage: Any) -> object:
    number = worker.next_number()
    match kind:
        case "poll":
            return await one.admission.poll(worker.principal, structs.replace(worker.message(), **lineage))
        case "permits":
            return await one.admission.permits(worker.principal, Permits(1, number, [], **lineage))
        case "fences":
            return await one.admission.fences(worker.principal, Fences(1, number, [], **lineage))
        case _:
            return await one.admission.reports(worker.principal, Reports(1, number, [], **lineage))


@pytest.mark.parametrize("kind", ["poll", "permits", "fences", "reports"])
def test_only_an_owner_of_the_lineage_that_a_ledger_knows_answers_it(kind: str) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            worker = FakeWorker(one)
            for fitting in ({}, {"cluster_id": CLUSTER_ID, "generation": 1}):
                await ask(one, worker, kind, **fitting)
            with pytest.raises(LineageRefused, match="belongs to cluster another, and this is cluster"):
                await ask(one, worker, kind, cluster_id="another", generation=1)
            with pytest.raises(LineageRefused, match="generation 2 of the cluster, and this owner is of generation 1"):
                await ask(one, worker, kind, cluster_id=CLUSTER_ID, generation=2)
            assert await restore(one) == 2
            for known in (1, 2):
                await ask(one, worker, kind, cluster_id=CLUSTER_ID, generation=known)
            with pytest.raises(LineageRefused):
                await ask(one, worker, kind, cluster_id=CLUSTER_ID, generation=3)

    simulate(story)


def test_a_refused_lineage_is_no_contact_and_is_told_so_in_words() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            with pytest.raises(LineageRefused) as refused:
                await ask(one, FakeWorker(one), "poll", cluster_id="another")
            assert one.runner.workers() == []
            problem = problem_of(refused.value)
            assert (problem.status, problem.certainty) == (409, "not_done")
            assert "its own cluster" in problem.detail

    simulate(story)


def test_a_poll_that_is_held_back_ends_with_the_restore() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            worker = FakeWorker(one)
            async with asyncio.TaskGroup() as group:
                held = group.create_task(worker.poll(5.0))
                await asyncio.sleep(1)
                assert not held.done()
                began_s = elapsed_s()
                await restore(one)
                reply = await held
            assert isinstance(reply, PollReply)
            assert reply.generation == 2
            assert elapsed_s() - began_s < 1

    simulate(story)


def test_what_fell_due_up_to_the_restore_is_skipped_and_what_comes_after_runs() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=10))
            # A stand-in for what an image does not hold: the owner could not plan what fell due before the restore.
            await one.runner.submit(ops.SetFrozen(operation("f1"), True))
            await asyncio.sleep(35)
            batch = [ops.SetFrozen(operation("f2"), False), ops.Restore(operation("r1"))]
            await one.runner.submit_all(batch)
            await asyncio.sleep(2)
            assert skips(one) == [("restored", 3)]
            assert one.states() == []
            await asyncio.sleep(10)
            assert one.states() == ["Pending"]

    simulate(story)


def test_a_restore_and_an_edit_in_one_turn_lose_no_instant() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=10))
            await one.runner.submit(ops.SetFrozen(operation("f1"), True))
            await asyncio.sleep(35)
            edit = ops.Apply(operation("k2"), (), (tick(every_s=20),))
            batch = [ops.SetFrozen(operation("f2"), False), ops.Restore(operation("r1")), edit]
            results = await one.runner.submit_all(batch)
            assert [result.kind for result in results] == ["done"] * 3
            assert skips(one) == [("restored", 3)]

    simulate(story)


def test_the_owner_drives_on_and_the_open_run_waits_for_a_human() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            worker = FakeWorker(one)
            await one.apply(tick(every_s=3_600))
            await one.runner.submit(ops.Trigger(operation("t1"), "demo", "tick"))
            claim = await worker.launched()
            await restore(one)
            assert one.states() == ["Unknown"]
            answer = await worker.report(worker.finish(claim))
            assert (answer.kind, answer.reason) == ("evidence", "generation_differs")
            (attempt,) = one.attempts()
            rows = ops.AttestedRow(attempt.run_id, 1, attempt.revision)
            words = ("w1", "i1", "Rita", "looked", "log")
            done = await one.runner.submit(ops.AttestIncarnationOp(operation("a1"), *words, (rows,)))
            assert done.kind == "done"
            assert (await worker.poll()).retired
            assert queries.head(one.log.db).generation == 2

    simulate(story)


def test_the_agenda_plans_barred_instants_first() -> None:
    row = schedule(trigger=ops.Every(10))
    restored = (Bar(NOON_MS + 35_000, "restored"),)
    first, reached = catch_up(row, NOON_MS + 60_000, restored)
    assert reached
    assert [(op.after_ms - NOON_MS, op.until_ms - NOON_MS) for op in first] == [(0, 35_000), (35_000, 60_000)]
    assert [(m.count, m.reason) for m in first[0].missed] == [(3, "restored")]
    assert [(at - NOON_MS) for at in first[1].due] == [40_000, 50_000, 60_000]
    assert due([row], {}, NOON_MS + 60_000, 10, restored) == []
    later = schedule(trigger=ops.Every(10), watermark_ms=NOON_MS + 40_000)
    assert catch_up(later, NOON_MS + 60_000, restored)[0][0].missed == ()
    assert bars(head(None)) == ()
    assert bars(head(5)) == (Bar(5, "restored"),)


def head(restored_ms: int | None) -> Head:
    return Head("c", 1, 1, "node1", 1, 0, 0, frozen=False, restored_ms=restored_ms)
