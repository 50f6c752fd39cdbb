"""The cancellation cases of behaviour.md, on virtual time: the real runner, and a worker that speaks the real protocol.

What is about processes of a host is tested with processes; the table in README.md says where.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from runner.checkpoint import ops, queries
from runner.checkpoint.records import Attempt, Run
from runner.checkpoint.results import OpResult
from tests.unit.runner.fake_node import FakeLog
from tests.unit.runner.rows import spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, elapsed_s, operation, running, tick, triggered, voter
from worker.protocol import Claim

CONTACT_S = 30.0


async def cancelled(one: Voter, run_id: str, key: str = "c1") -> OpResult:
    return await one.runner.submit(ops.CancelOp(operation(key), run_id))


async def started(one: Voter, **policies: Any) -> tuple[FakeWorker, Claim]:
    """Return a worker with the permit of the one attempt of a manual run."""
    await one.apply(tick(every_s=86_400, **policies))
    await triggered(one)
    worker = FakeWorker(one)
    return worker, await worker.launched()


def state(one: Voter, run_id: str) -> str:
    run = queries.run(one.log.db, run_id)
    assert run is not None
    return run.state.value


def notes(one: Voter, run_id: str) -> str:
    return "\n".join(each.evidence for each in queries.attempts(one.log.db, run_id))


def story_of(story: Callable[[Voter], Any]) -> None:
    async def whole() -> None:
        one = voter()
        async with running(one):
            await story(one)

    simulate(whole)


def test_c54a_cancel_then_the_completion_report_has_one_end_and_the_other_as_a_note() -> None:
    """Completion won: the worker had the result on disk before it heard of the cancellation."""

    async def story(one: Voter) -> None:
        worker, claim = await started(one)
        run_id = claim.binding.run_id
        assert (await cancelled(one, run_id)).detail["state"] == "Cancelling"
        assert (await worker.report(worker.finish(claim))).kind == "recorded"
        assert state(one, run_id) == "Succeeded"
        assert (await worker.report(worker.stopped(claim))).kind == "evidence"
        assert state(one, run_id) == "Succeeded", "a terminal state is never overwritten"
        assert "confirm_stopped" in notes(one, run_id)
        ends = [e for e in queries.events(one.log.db, run_id=run_id, limit=100) if e.to_state == "Succeeded"]
        assert {event.attempt for event in ends} == {None, 1}, "run and attempt, once each"

    story_of(story)


def test_c54a_the_stop_comes_first_and_the_result_is_the_note() -> None:
    async def story(one: Voter) -> None:
        worker, claim = await started(one)
        run_id = claim.binding.run_id
        await cancelled(one, run_id)
        assert (await worker.report(worker.stopped(claim))).kind == "recorded"
        assert (await worker.report(worker.finish(claim))).kind == "evidence"
        assert state(one, run_id) == "Cancelled"
        assert "finish" in notes(one, run_id)

    story_of(story)


@pytest.mark.parametrize("succeeded", [True, False])
def test_c54b_completion_then_cancel_is_refused_with_the_state(*, succeeded: bool) -> None:
    async def story(one: Voter) -> None:
        worker, claim = await started(one)
        run_id = claim.binding.run_id
        await worker.report(worker.finish(claim, succeeded=succeeded))
        refused = await cancelled(one, run_id)
        ended = "Succeeded" if succeeded else "Failed"
        assert (refused.kind, refused.reason, refused.detail["state"]) == ("refused", "terminal", ended)
        assert state(one, run_id) == ended

    story_of(story)


def test_c54c_cancelled_between_claim_and_permit_it_gets_no_permit() -> None:
    async def story(one: Voter) -> None:
        await one.apply(tick(every_s=86_400))
        run_id = await triggered(one)
        worker = FakeWorker(one)
        claim = await worker.claim()
        assert (await cancelled(one, run_id)).detail["state"] == "Cancelled"
        assert (await worker.permit(claim)).kind == "denied"
        assert [each.fenced for each in queries.attempts(one.log.db, run_id)] == [True]

    story_of(story)


def test_c54c_cancelled_between_permit_and_start_the_worker_says_that_it_never_began() -> None:
    async def story(one: Voter) -> None:
        worker, claim = await started(one)
        run_id = claim.binding.run_id
        assert (await cancelled(one, run_id)).detail["state"] == "Cancelling", "it may have begun"
        (stop,) = (await worker.poll()).stops
        assert (stop.run_id, stop.attempt) == (run_id, 1)
        again = await worker.permit(claim)
        assert (again.kind, again.token) == ("denied", None), "a repeated ask is not granted any more"
        answer = await worker.report(worker.never_began(claim))
        assert (answer.kind, state(one, run_id)) == ("recorded", "Cancelled")

    story_of(story)


@pytest.mark.parametrize("after_a_failure", [False, True])
def test_c54d_no_retry_follows_a_cancellation(*, after_a_failure: bool) -> None:
    async def story(one: Voter) -> None:
        worker, claim = await started(one, retry=ops.Retry(attempts=5))
        run_id = claim.binding.run_id
        if after_a_failure:
            await worker.report(worker.finish(claim, succeeded=False))
            worker.drop(claim)
            assert (await cancelled(one, run_id)).detail["state"] == "Cancelled", "it waited for its next attempt"
        else:
            await cancelled(one, run_id)
            await worker.report(worker.finish(claim, succeeded=False))
            assert state(one, run_id) == "Failed", "a failure that was observed before the stop"
        ended = state(one, run_id)
        until_s = elapsed_s() + 120
        while elapsed_s() < until_s:
            assert (await worker.poll(5.0)).claims == []
        assert (state(one, run_id), len(one.attempts())) == (ended, 1)

    story_of(story)


def test_c54e_cancelled_twice_it_answers_the_same() -> None:
    async def story(one: Voter) -> None:
        worker, claim = await started(one)
        run_id = claim.binding.run_id
        first, same_key, other_key = [await cancelled(one, run_id, key) for key in ("c1", "c1", "c2")]
        assert {each.kind for each in (first, same_key, other_key)} == {"done"}
        assert first.detail["state"] == same_key.detail["state"] == other_key.detail["state"] == "Cancelling"
        assert (first.again, same_key.again) == (False, True)
        await worker.report(worker.stopped(claim))
        assert (await cancelled(one, run_id, "c1")).detail == first.detail, "what that key was told"
        assert (await cancelled(one, run_id, "c3")).reason == "terminal"
        assert len([e for e in queries.events(one.log.db, run_id=run_id, limit=100) if e.op == "cancel"]) == 2

    story_of(story)


def attempts_of(one: Voter, run_id: str) -> list[Attempt]:
    return queries.attempts(one.log.db, run_id)


def test_c55_a_killed_worker_leaves_unknown_and_a_late_report_resolves_it_once() -> None:
    async def story(one: Voter) -> None:
        worker, claim = await started(one, retry=ops.Retry(attempts=5))
        run_id = claim.binding.run_id
        await asyncio.sleep(CONTACT_S - 1)
        assert state(one, run_id) == "Active"
        await asyncio.sleep(5)
        assert (state(one, run_id), attempts_of(one, run_id)[0].reason) == ("Unknown", "worker_out_of_contact")
        other = FakeWorker(one, name="w2", incarnation="i2", ledger="l2")
        until_s = elapsed_s() + 120
        while elapsed_s() < until_s:
            assert (await other.poll(5.0)).claims == [], "nothing is tried again by itself"
        assert (await worker.report(worker.finish(claim))).kind == "recorded"
        assert state(one, run_id) == "Succeeded"
        assert (await worker.report(worker.finish(claim, succeeded=False))).kind == "evidence"
        assert (state(one, run_id), len(attempts_of(one, run_id))) == ("Succeeded", 1), "once"

    story_of(story)


@pytest.mark.parametrize("late_first", [False, True])
def test_c55_a_late_report_for_a_superseded_attempt_is_kept_and_changes_nothing(*, late_first: bool) -> None:
    """Retry on unknown is for deliveries: their receiver drops the second one by its key."""

    async def story(one: Voter) -> None:
        worker, claim = await started(one, on_unknown="retry", delivery_deadline_s=3_600)
        run_id = claim.binding.run_id
        await asyncio.sleep(CONTACT_S)
        other = FakeWorker(one, name="w2", incarnation="i2", ledger="l2")
        second = await other.launched()
        assert (second.binding.run_id, second.binding.attempt) == (run_id, 2)
        assert second.idempotency_key == claim.idempotency_key
        first = attempts_of(one, run_id)[0]
        assert (first.state.value, first.superseded) == ("Unknown", True)
        if late_first:
            assert (await worker.report(worker.finish(claim, succeeded=False))).kind == "evidence"
            assert state(one, run_id) == "Active", "the second attempt decides"
        assert (await other.report(other.finish(second))).kind == "recorded"
        assert (await worker.report(worker.finish(claim, succeeded=False))).kind == "evidence"
        assert state(one, run_id) == "Succeeded"
        first = attempts_of(one, run_id)[0]
        assert (first.state.value, first.superseded) == ("Unknown", True)
        assert "finish" in first.evidence

    story_of(story)


def test_c58_a_restarted_owner_starts_nothing_that_runs_elsewhere() -> None:
    async def whole() -> None:
        log = FakeLog()
        async with running(one := voter(log)):
            await one.apply(spec(trigger=ops.Cron("* * * * *")))
            await asyncio.sleep(58)
            worker = FakeWorker(one, name="b")
            claim = await worker.launched()
        async with running(again := voter(log)):
            worker.voter = again
            other = FakeWorker(again, name="c", incarnation="i2", ledger="l2")
            until_s = elapsed_s() + 150
            while elapsed_s() < until_s:
                assert (await other.poll()).claims == []
                await worker.poll(2.0)
            open_runs = [row for row in again.runs() if isinstance(row, Run)]
            assert [row.run_id for row in open_runs] == [claim.binding.run_id]

    simulate(whole)
