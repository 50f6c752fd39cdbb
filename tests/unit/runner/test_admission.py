import asyncio
import contextlib
from dataclasses import replace

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown
from runner.checkpoint import ops
from tests.unit.runner.fake_node import FakeLog
from tests.unit.runner.rows import NOON_MS
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import (
    FakeWorker,
    only,
    operation,
    running,
    tick,
    triggered,
    voter,
)
from worker.protocol import FenceRequest, Fences, NotOwner, PermitRequest


def test_a_run_goes_from_its_instant_to_success() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=10))
            worker = FakeWorker(one, pools=frozenset({"default"}))
            claim = await worker.claim()
            assert (claim.schedule, claim.scheduled_for) == ("tick", "2026-03-29T12:00:11Z")
            assert claim.target.argv == ("true",)
            assert claim.binding.worker == "w1"
            assert claim.not_before_ms == NOON_MS + 11_000
            worker.hold(claim)
            first, again = await worker.permit(claim), await worker.permit(claim)
            assert (first.kind, first.token) == (again.kind, again.token) == ("granted", first.token)
            assert (await worker.permit(claim, "x2")).kind == "denied"
            assert (await worker.report(worker.finish(claim))).kind == "recorded"
            assert one.states() == ["Succeeded"]

    simulate(story)


def test_a_worker_is_neither_offered_nor_permitted_what_its_credential_is_not_for() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("ours", 3_600), tick("theirs", 3_600, namespace="other"))
            await one.runner.submit(ops.Trigger(operation("t1"), "other", "theirs"))
            await triggered(one, "t2", "ours")
            worker = FakeWorker(one, namespaces=frozenset({"demo"}))
            claim = await worker.claim()
            assert claim.binding.namespace == "demo"
            assert await offered(worker) == [claim.binding.run_id]
            worker.hold(claim)
            for outside in ({"namespaces": frozenset({"other"})}, {"pools": frozenset({"gpu"})}):
                narrowed = replace(worker, **outside)
                answer = await narrowed.permit(claim)
                assert (answer.kind, answer.reason) == ("denied", "authority_differs")
            assert (await worker.permit(claim)).kind == "granted"

    simulate(story)


async def offered(worker: FakeWorker) -> list[str]:
    return [claim.binding.run_id for claim in (await worker.poll()).claims]


def test_a_worker_may_fence_its_claim_but_not_a_permit() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("a", 3_600), tick("b", 3_600))
            worker = FakeWorker(one)
            await triggered(one, "t1", "a")
            permitted = await worker.launched()
            await triggered(one, "t2", "b")
            claimed = await worker.claim()
            kinds = []
            for claim in (permitted, claimed):
                message = Fences(1, worker.next_number(), [FenceRequest(claim.binding)])
                kinds.append(only(await one.admission.fences(worker.principal, message)).kind)
            assert kinds == ["permit_exists", "fenced"]

    simulate(story)


def test_a_permit_of_the_old_owner_stays_valid_and_is_told_again_by_the_new_one() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        async with running(one, two):
            await one.apply(tick(every_s=3_600))
            await triggered(one)
            worker = FakeWorker(one)
            claim = await worker.claim()
            worker.hold(claim)
            one.node.fail = one.node.lose_reply
            with pytest.raises(OutcomeUnknown):
                await worker.permit(claim)
            one.node.depose("node2")
            two.node.elect()
            await two.driving()
            worker.voter = two
            await worker.poll()
            await worker.poll()
            answer = await worker.permit(claim)
            (row,) = two.attempts()
            assert (answer.kind, answer.token) == ("granted", row.token)
            assert (row.owner, row.epoch) == ("node1", 1)

    simulate(story)


def test_another_worker_can_neither_use_nor_report_an_attempt() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker, thief = FakeWorker(one), FakeWorker(one, "w2")
            await triggered(one)
            claim = await worker.claim()
            assert (await thief.permit(claim)).kind == "denied"
            worker.hold(claim)
            await worker.permit(claim)
            assert (await thief.report(worker.finish(claim))).kind == "no_such_run"
            assert (await thief.report(worker.cannot_tell(claim))).kind == "no_such_run"
            assert one.states() == ["Active"]

    simulate(story)


def test_a_failed_run_keeps_the_end_of_its_output_in_bytes_and_cannot_tell_is_unknown() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("a", 3_600), tick("b", 3_600))
            worker = FakeWorker(one)
            await triggered(one, "t1", "a")
            failed = await worker.launched()
            tail = "ä" * 1_000 + "the end"
            assert (await worker.report(worker.finish(failed, succeeded=False, tail=tail))).kind == "recorded"
            await triggered(one, "t2", "b")
            lost = await worker.launched()
            assert (await worker.report(worker.cannot_tell(lost))).kind == "recorded"
            rows = {row.run_id: row for row in one.attempts()}
            kept = rows[failed.binding.run_id].tail
            assert kept.endswith("ä" + "the end")
            assert 1_020 <= len(kept.encode()) <= 1_024
            assert rows[lost.binding.run_id].state.value == "Unknown"

    simulate(story)


def test_permits_of_a_list_are_one_command() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            names = [f"s{n}" for n in range(5)]
            await one.apply(*(tick(name, 3_600) for name in names))
            worker = FakeWorker(one, slots=9)
            for name in names:
                await triggered(one, f"t-{name}", name)
            await worker.poll()
            await asyncio.sleep(0.1)
            claims = (await worker.poll()).claims
            requests = [PermitRequest(claim.binding, f"x{n}") for n, claim in enumerate(claims)]
            before = len(one.log.commands)
            reply = await one.admission.permits(worker.principal, worker.permits(*requests))
            kinds = [answer.kind for answer in getattr(reply, "items", [])]
            assert kinds == ["granted"] * 5
            assert len(one.log.commands) == before + 1

    simulate(story)


def test_without_ownership_permits_fences_and_reports_name_the_owner() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        two.node.leader = "node1"
        async with running(one, two):
            await one.apply(tick(every_s=3_600))
            await triggered(one)
            worker = FakeWorker(one)
            claim = await worker.claim()
            admission, who = two.admission, worker.principal
            replies = [
                await admission.permits(who, worker.permits(PermitRequest(claim.binding, "x1"))),
                await admission.fences(who, Fences(1, worker.next_number(), [FenceRequest(claim.binding)])),
            ]
            assert [getattr(reply, "owner", None) for reply in replies] == ["node1", "node1"]
            assert one.attempts()[0].state.value == "Claimed"

    simulate(story)


def test_a_permit_that_another_owner_came_before_is_not_done() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await triggered(one)
            claim = await worker.claim()
            head = one.log.commands[-1]
            revision = len(one.log.commands)
            acquire = ops.Command(1, 1, revision, head.now_ms, "node2", (ops.Acquire("node2"),))
            one.log.append(ops.encode(acquire))
            asked = worker.permits(PermitRequest(claim.binding, "x1"))
            with contextlib.suppress(NotApplied):  # whichever is noticed first: both say that it was not done
                assert isinstance(await one.admission.permits(worker.principal, asked), NotOwner)
            assert one.attempts()[0].state.value == "Claimed"
            proposed = [type(op) for command in one.log.commands for op in command.ops]
            assert ops.AdmitOp not in proposed, "what it read was not its own revision: it proposed nothing"

    simulate(story)
