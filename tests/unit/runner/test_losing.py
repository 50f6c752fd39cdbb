import asyncio

import pytest

from cluster.outcome import Applied, NotApplied, Why
from runner import loop
from runner.checkpoint.ops import FinishOp, LoseOp
from runner.contacts import IncarnationRefused
from tests.unit.runner.fake_node import FakeLog
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import (
    FakeWorker,
    elapsed_s,
    running,
    tick,
    triggered,
    voter,
)
from worker.protocol import CannotTell, Claim, PermitRequest, Reports


def test_a_claim_without_a_permit_is_fenced_after_15_s_and_given_again() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one, slots=1)
            await triggered(one)
            claim = await worker.claim()
            begun = elapsed_s()
            second = await _other_claim(worker, claim)
            assert 15.0 <= elapsed_s() - begun < 20.0
            assert second.binding.attempt == 2
            assert [row.state.value for row in one.attempts()] == ["NotLaunched", "Claimed"]
            assert (await worker.permit(claim)).kind == "denied"
            assert (await worker.permit(second)).kind == "granted"

    simulate(story)


async def _other_claim(worker: FakeWorker, claim: Claim) -> Claim:
    async with asyncio.timeout(60):
        while True:
            for other in (await worker.poll(5.0)).claims:
                if other.binding != claim.binding:
                    return other


def test_a_silent_worker_is_lost_after_30_s_and_its_late_result_still_counts() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await triggered(one)
            claim = await worker.launched()
            await worker.poll()
            await asyncio.sleep(29)
            assert one.states() == ["Active"]
            await asyncio.sleep(3)
            assert one.states() == ["Unknown"]
            (row,) = one.attempts()
            assert row.reason == "worker_out_of_contact"
            assert (await worker.report(worker.finish(claim))).kind == "recorded"
            assert one.states() == ["Succeeded"]

    simulate(story)


def test_a_stalled_owner_does_not_take_its_own_deafness_for_a_workers_death() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await triggered(one)
            await worker.launched()
            await worker.poll()
            loop = asyncio.get_running_loop()
            loop._jumping.now_s += 3_600.0
            await asyncio.sleep(5)
            assert one.states() == ["Active"]
            await worker.poll()
            await asyncio.sleep(29)
            assert one.states() == ["Active"]

    simulate(story)


def test_time_in_which_nothing_could_be_committed_is_nobodys_silence() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("a", every_s=3_600), tick("busy"))
            worker = FakeWorker(one, pools=frozenset({"default"}), slots=1)
            await triggered(one, name="a")
            await worker.launched()
            await worker.poll()
            real = one.node.propose

            async def full(*_: object) -> Applied:
                raise NotApplied(Why.STORE_FULL)

            one.node.propose = full
            await asyncio.sleep(300)
            one.node.propose = real
            await asyncio.sleep(20)
            assert [row.reason for row in one.attempts()] == [None]
            await asyncio.sleep(15)
            assert [row.reason for row in one.attempts()] == ["worker_out_of_contact"]

    simulate(story)


def test_nobody_is_lost_for_silence_in_a_turn_that_leaves_callers_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MAX_DRAINED", 1)

    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await triggered(one)
            claim = await worker.launched()
            mark = len(one.log.commands)
            one.node.flowing.clear()
            async with asyncio.TaskGroup() as group:
                group.create_task(triggered(one, "t2"))
                await asyncio.sleep(0.1)  # its turn is in flight while the worker becomes silent and speaks at last
                tenure = one.runner.tenure
                assert tenure is not None
                tenure.served.served_s += 60.0
                said = [CannotTell(run_id="x", attempt=1, incarnation="i1", ledger="l1"), worker.finish(claim)]
                group.create_task(one.admission.reports(worker.principal, Reports(1, 50, said)))
                await asyncio.sleep(0.1)
                one.node.flowing.set()
            proposed = [op for command in one.log.commands[mark:] for op in command.ops]
            finished = next(at for at, op in enumerate(proposed) if isinstance(op, FinishOp))
            lost_before = [op.run_id for op in proposed[:finished] if isinstance(op, LoseOp)]
            assert lost_before == ["x"], "of which the worker itself said that it cannot tell"
            assert "Succeeded" in one.states()

    simulate(story)


def test_at_a_takeover_silence_counts_from_the_takeover() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        async with running(one, two):
            await one.apply(tick(every_s=3_600))
            await triggered(one)
            await FakeWorker(one).launched()
            await asyncio.sleep(25)
            one.node.depose("node2")
            two.node.elect()
            await two.driving()
            await asyncio.sleep(29)
            assert two.states() == ["Active"]
            await asyncio.sleep(3)
            assert two.states() == ["Unknown"]

    simulate(story)


def test_a_new_incarnation_settles_what_the_older_one_left_at_once() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick("a", 3_600), tick("b", 3_600), tick("c", 3_600))
            old = FakeWorker(one, slots=3)
            seen = []
            for name in "ab":
                await triggered(one, f"t-{name}", name)
                seen.append(await old.launched())
            await triggered(one, "t-c", "c")
            claimed = await old.claim()
            new = FakeWorker(one, incarnation="i2", life=2, slots=0)
            new.hold(seen[0], "accepted", observable=True)
            new.hold(seen[1], "consumed", observable=False)
            new.slots = 0
            await new.poll()
            await asyncio.sleep(0.1)
            states = {row.run_id: (row.state.value, row.reason) for row in one.attempts()}
            assert states[seen[0].binding.run_id][0] == "Admitted"
            assert states[seen[1].binding.run_id] == ("Unknown", "incarnation_replaced")
            assert states[claimed.binding.run_id][0] == "NotLaunched"
            with pytest.raises(IncarnationRefused):
                await old.poll()
            assert (await old.permit(claimed)).kind == "denied"

    simulate(story)


def test_an_attempt_that_its_own_incarnation_does_not_list_is_lost() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            worker = FakeWorker(one)
            await triggered(one)
            claim = await worker.launched()
            early = worker.message()
            worker.drop(claim)
            late_request = worker.permits(PermitRequest(claim.binding, "x1"))
            gone = worker.message()
            await one.admission.permits(worker.principal, late_request)
            await one.admission.poll(worker.principal, early)
            await asyncio.sleep(0.1)
            assert one.states() == ["Active"]
            await one.admission.poll(worker.principal, gone)
            await asyncio.sleep(0.1)
            (row,) = one.attempts()
            assert (row.state.value, row.reason) == ("Unknown", "not_held")

    simulate(story)
