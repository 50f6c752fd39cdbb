"""The owner forgets what is past its retention, a little at a time, and nothing else waits for it."""

import asyncio
from typing import Any

import pytest

from runner import retention
from runner.checkpoint import ops, queries
from runner.retention import Look, Sweep, look
from runner.trusted_time import Reckoning
from tests.unit.checkpoint.book import Book, spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, running, tick, triggered, voter

DAY_MS = 86_400_000


def prunes(commands: list[ops.Command]) -> list[ops.Prune]:
    return [op for command in commands for op in command.ops if isinstance(op, ops.Prune)]


def test_old_runs_go_while_new_ones_are_launched_as_ever() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=10, retention_s=20))
            worker = FakeWorker(one, slots=1)
            done = []
            for _ in range(9):
                claim = await worker.launched()
                done.append(claim.binding.run_id)
                assert (await worker.report(worker.finish(claim))).kind == "recorded"
                worker.drop(claim)
            runs = [row.run_id for row in queries.runs(one.log.db, schedule_id=None, state=None, limit=99)]
            assert done[0] not in runs
            assert done[-1] in runs
            assert set(runs) <= set(done)
            gone = await worker.report(worker.finish_of(done[0]))
            assert gone.kind == "no_such_run"
            assert {op.schedule_id for op in prunes(one.log.commands)} == {runs_of(one)}
            assert len(prunes(one.log.commands)) < 15, "found nothing: looked at a minute later"

    simulate(story)


def runs_of(one: Any) -> str:
    return str(queries.schedules(one.log.db)[0].schedule_id)


def test_a_takeover_with_clocks_that_are_not_believed_forgets_nothing() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600, retention_s=60))
            await triggered(one, "t1")
            await one.runner.submit(ops.CancelOp(ops.Operation("operator", "c1", "d"), one.runs()[0].run_id))
            tenure = one.runner.tenure
            assert tenure is not None
            tenure.served.served_s = 1_000.0
            assert tenure.retention_after == ""
            one.clock.step_ms += 40 * DAY_MS
            await asyncio.sleep(2.0)
            assert isinstance(tenure.reckoning, Reckoning)
            assert tenure.reckoning.stepped
            assert tenure.retention_after is None
            assert len(one.runs()) == 1
            tenure.reckoning = None
            assert tenure.retention_after is None, "nor before the first look at the clocks"

    simulate(story)


def full_book(schedules: int, runs_each: int) -> Book:
    book = Book(now_ms=DAY_MS)
    book.acquire()
    names = [f"s{n:03d}" for n in range(schedules)]
    assert book.apply(*(spec(name, schedule_id=name, retention_s=60) for name in names)).kind == "done"
    for name in names:
        for n in range(runs_each):
            key = f"{DAY_MS:012x}"
            operation = book.operation(f"{key[:8]}-{key[8:]}-7000-8000-{n:04x}{name.encode().hex()}")
            made = book.do(ops.Trigger(operation, "demo", name))
            book.cancel(made.detail["run_id"])
    return book


def test_one_look_is_bounded_and_a_round_reaches_every_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MAX_LOOKED", 10)
    monkeypatch.setattr(retention, "MAX_PRUNES", 3)
    monkeypatch.setattr(retention, "MAX_ROWS", 12)
    book = full_book(25, 2)
    later_ms = DAY_MS + 30 * DAY_MS
    sweep, served_s, seen = Sweep(), 0.0, []
    assert sweep.wanted(served_s) is None, "a new owner has better things to do"
    for _ in range(200):
        served_s = max(served_s, sweep.at_s)
        after = sweep.wanted(served_s)
        assert after is not None
        book.now_ms = later_ms
        found = look(book.db, after, later_ms)
        assert len(found.prunes) <= 3
        assert sum(op.limit for op in found.prunes) <= 12
        for op in found.prunes:
            assert book.do(op).detail["runs"] >= 1
            seen.append(op.schedule_id)
        before_s = served_s
        sweep.take(found, served_s)
        if sweep.at_s - before_s == retention.NEXT_ROUND_S:
            break
        assert sweep.at_s - before_s == retention.NEXT_LOOK_S
    else:
        pytest.fail("the rounds never ended")
    assert sorted(set(seen)) == [f"s{n:03d}" for n in range(25)]
    assert seen[:25] == sorted(set(seen)), "each schedule has its turn before any has a second one"
    assert book.db.execute("SELECT COUNT(*) FROM runs").fetchone() == (0,)


def test_a_round_that_found_something_is_followed_by_another_at_once() -> None:
    sweep = Sweep()
    sweep.take(Look((ops.Prune("s", 1, 1),), "s"), 100.0)
    assert (sweep.after, sweep.at_s) == ("s", 100.5)
    sweep.take(Look((), None), 101.0)
    assert (sweep.after, sweep.at_s) == ("", 101.5)
    sweep.take(Look((), None), 102.0)
    assert (sweep.after, sweep.at_s) == ("", 162.0)


def test_deleted_schedules_are_swept_too() -> None:
    book = full_book(1, 1)
    book.do(ops.Delete(book.operation(), "demo", "s000"))
    later_ms = 31 * DAY_MS
    assert [op.schedule_id for op in look(book.db, "", later_ms).prunes] == ["s000"]
    assert look(book.db, "s000", later_ms) == Look((), None)
