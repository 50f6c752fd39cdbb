"""What one worker, or all of them, may ask of an owner at once: bounded, refused in words, and nothing remembered."""

import asyncio
from typing import Any

import msgspec
import pytest

from cluster.outcome import NotApplied, Why
from cluster.problem import Problem
from runner.admission import service
from runner.admission.service import MAX_WAITING_OF_ONE
from runner.contacts import IncarnationRefused
from tests.unit.runner.test_admission_routes import JSON, POLL, post
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, elapsed_s, running, tick, triggered, voter
from worker.protocol import MAX_ITEMS, Answers, Binding, CannotTell, Fences, Held, PermitRequest, Permits, Reports


def words(count: int) -> list[CannotTell]:
    return [CannotTell(run_id=f"r{n}", attempt=1, incarnation="i1", ledger="l1") for n in range(count)]


def binding(n: int, worker: str = "w1") -> Binding:
    parts = dict.fromkeys(Binding.__struct_fields__, "x") | {"run_id": f"r{n}", "worker": worker}
    return Binding(**(parts | {"attempt": 1, "epoch": 1, "generation": 1}))


@pytest.mark.parametrize(
    ("path", "message", "said"),
    [
        (
            "/v1/reports",
            Reports(1, 1, list(words(MAX_ITEMS + 1))),
            "The body is no Reports: Expected `array` of length <= 1000 - at `$.items`.",
        ),
        (
            "/v1/permits",
            Permits(1, 1, [PermitRequest(binding(n), "x") for n in range(MAX_ITEMS + 1)]),
            "The body is no Permits: Expected `array` of length <= 1000 - at `$.items`.",
        ),
        (
            "/v1/poll",
            msgspec.structs.replace(POLL, held=[Held(f"r{n}", 1, "reserved", True) for n in range(MAX_ITEMS + 1)]),
            "The body is no Poll: Expected `array` of length <= 1000 - at `$.held`.",
        ),
        (
            "/v1/poll",
            msgspec.structs.replace(POLL, wait_s=5.1),
            "The body is no Poll: Expected `float` <= 5.0 - at `$.wait_s`.",
        ),
        (
            "/v1/poll",
            msgspec.structs.replace(POLL, slots=1_001),
            "The body is no Poll: Expected `int` <= 1000 - at `$.slots`.",
        ),
    ],
)
def test_a_list_that_is_too_long_is_refused_in_exact_words(path: str, message: Any, said: str) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            with pytest.raises(Problem) as refused:
                await post(one, path, msgspec.json.encode(message), JSON)
            assert (refused.value.status, refused.value.detail, refused.value.certainty) == (400, said, "not_done")

    simulate(story)


def test_a_full_list_is_answered_item_by_item() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            reply = await post(one, "/v1/reports", msgspec.json.encode(Reports(1, 1, list(words(MAX_ITEMS)))))
            assert reply.body.count(b"no_such_run") == MAX_ITEMS

    simulate(story)


def test_one_worker_never_fills_the_queue_of_all() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            one.node.flowing.clear()
            greedy, modest = FakeWorker(one), FakeWorker(one, "w2")
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(one.admission.reports(greedy.principal, Reports(1, n, list(words(MAX_ITEMS)))))
                    for n in range(MAX_WAITING_OF_ONE // MAX_ITEMS)
                ]
                await asyncio.sleep(0.1)
                one_more = Reports(1, 9, list(words(1)))
                with pytest.raises(Problem) as refused:
                    await post(one, "/v1/reports", msgspec.json.encode(one_more))
                assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "1")
                asked.append(group.create_task(one.admission.reports(modest.principal, one_more)))
                one.node.flowing.set()
            assert [len(task.result().items) for task in asked] == [MAX_ITEMS, MAX_ITEMS, 1]
            assert (await one.admission.fences(greedy.principal, Fences(1, 10, []))) is not None
            assert one.admission._waiting == {}

    simulate(story)


def test_more_held_polls_than_fit_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_HELD_POLLS", 3)

    async def story() -> None:
        one = voter()
        async with running(one):
            workers = [FakeWorker(one, f"w{n}", ledger=f"l{n}") for n in range(4)]
            async with asyncio.TaskGroup() as group:
                held = [group.create_task(worker.poll(5.0)) for worker in workers[:3]]
                await asyncio.sleep(1)
                begun_s = elapsed_s()
                assert (await workers[3].poll(5.0)).claims == []
                assert elapsed_s() - begun_s < 0.1
                assert not any(poll.done() for poll in held)
            begun_s = elapsed_s()
            await workers[3].poll(2.0)
            assert elapsed_s() - begun_s == pytest.approx(2.0, abs=0.1)

    simulate(story)


def test_one_worker_name_holds_one_poll_on_however_many_connections() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            worker = FakeWorker(one)
            async with asyncio.TaskGroup() as group:
                polls = [group.create_task(worker.poll(5.0)) for _ in range(20)]
                await asyncio.sleep(0.5)
                assert [poll.done() for poll in polls] == [True] * 19 + [False]
                assert (one.admission._held_polls, len(one.runner.workers())) == (1, 1)
            assert one.admission._held_polls == 0

    simulate(story)


def test_a_credential_with_ever_new_incarnations_is_remembered_once() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            refused = 0
            for n in range(300):
                ledger, life = ("l1", n + 1) if n % 2 else (f"other{n}", 1)
                worker = FakeWorker(one, incarnation=f"i{n}", ledger=ledger, life=life)
                try:
                    await worker.poll()
                except IncarnationRefused:
                    refused += 1
            tenure = one.runner.tenure
            assert tenure is not None
            kept = tenure.contacts
            assert [len(kept._contacts), len(kept._bells), len(kept._told)] == [1, 0, 1]
            assert refused >= 149, "and only the life that stands is heard"

    simulate(story)


def test_permit_requests_about_nothing_are_forgotten_and_bounded_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_ASKS", 50)

    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            await triggered(one)
            worker = FakeWorker(one)
            claim = await worker.launched()
            tenure = one.runner.tenure
            assert tenure is not None
            made_up = [PermitRequest(binding(n), "x") for n in range(40)]
            await one.admission.permits(worker.principal, worker.permits(*made_up))
            await asyncio.sleep(1.5)
            assert set(tenure.contacts.asks) == {(claim.binding.run_id, 1)}
            several = [one.admission.permits(worker.principal, worker.permits(*made_up)) for _ in range(2)]
            taken, refused = await asyncio.gather(*several, return_exceptions=True)
            assert isinstance(taken, Answers)
            assert isinstance(refused, NotApplied)
            assert refused.why is Why.QUEUE_FULL

    simulate(story)
