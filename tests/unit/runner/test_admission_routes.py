"""The admission routes over their real handlers: bodies, content types and statuses."""

from typing import Any

import msgspec
import pytest

from cluster.bearer import Principal
from cluster.listener import Reply, Request
from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.problem import Problem
from runner.admission.routes import admission_routes, problem_of
from runner.contacts import IncarnationRefused
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import Voter, running, voter
from worker.protocol import Answers, CannotTell, NotOwner, Permits, Poll, PollReply, Reports

POLL = Poll(version=1, incarnation="i1", ledger="l1", life=1, number=1, epoch=0, slots=0, held=[])
JSON, MSGPACK = "application/json", "application/msgpack"


async def post(one: Voter, path: str, body: bytes, content_type: str = JSON) -> Reply:
    (route,) = [route for route in admission_routes(one.admission) if route.path == path]
    assert (route.method, route.roles) == ("POST", frozenset({"worker"}))
    principal = Principal("w1", "worker")
    return await route.handler(Request("POST", path, {}, {}, {}, body, content_type, principal))


@pytest.mark.parametrize(
    ("content_type", "codec"), [(JSON, msgspec.json), ("", msgspec.json), (MSGPACK, msgspec.msgpack)]
)
def test_the_answer_comes_in_the_form_of_the_question(content_type: str, codec: Any) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            reply = await post(one, "/v1/poll", codec.encode(POLL), content_type)
            assert (reply.status, reply.content_type) == (200, content_type or JSON)
            assert codec.decode(reply.body, type=PollReply).epoch == 1
            report = CannotTell(run_id="0", attempt=1, incarnation="i1", ledger="l1")
            reply = await post(one, "/v1/reports", codec.encode(Reports(1, 2, [report])), content_type)
            assert [answer.kind for answer in codec.decode(reply.body, type=Answers).items] == ["no_such_run"]

    simulate(story)


def test_who_does_not_own_answers_421_with_who_does() -> None:
    async def story() -> None:
        one = voter()
        one.node.leader = "node2"
        for path, message in (("/v1/poll", POLL), ("/v1/permits", Permits(1, 1, []))):
            reply = await post(one, path, msgspec.json.encode(message))
            assert reply.status == 421
            named = msgspec.json.decode(reply.body, type=NotOwner)
            assert (named.owner, len(named.urls)) == ("node2", 2)

    simulate(story)


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", JSON, 400),
        (b"{", JSON, 400),
        (b"[]", MSGPACK, 400),
        (b'{"version": 1}', JSON, 400),
        (msgspec.json.encode(POLL).replace(b'"slots":0', b'"slots":-1'), JSON, 400),
        (msgspec.json.encode(POLL).replace(b'"version":1', b'"version":2'), JSON, 400),
        (msgspec.json.encode(POLL).replace(b'"number":1', b'"number":' + b"9" * 30), JSON, 400),
        (b'{"held": ' + b"[" * 100_000, JSON, 400),
        (b"\x91" * 100_000, MSGPACK, 400),
        (b'{"incarnation": "\xff"}', JSON, 400),
        (msgspec.json.encode(POLL), "text/plain", 415),
    ],
)
def test_a_body_that_is_no_message_is_refused_and_nothing_is_heard(body: bytes, content_type: str, status: int) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            with pytest.raises(Problem) as refused:
                await post(one, "/v1/poll", body, content_type)
            assert (refused.value.status, refused.value.certainty) == (status, "not_done")
            assert one.runner.workers() == []

    simulate(story)


@pytest.mark.parametrize(
    ("fault", "status", "certainty", "retry"),
    [
        (NotApplied(Why.NOT_LEADER), 503, "not_done", "1"),
        (NotApplied(Why.STORE_FULL), 503, "not_done", "1"),
        (NotApplied(Why.QUEUE_FULL), 429, "not_done", "1"),
        (NotApplied(Why.TOO_LARGE), 413, "not_done", None),
        (OutcomeUnknown(), 503, "unknown", "1"),
        (IncarnationRefused("i1"), 409, "not_done", "1"),
    ],
)
def test_every_fault_says_how_certain_it_is(
    fault: NotApplied | OutcomeUnknown | IncarnationRefused, status: int, certainty: str, retry: str | None
) -> None:
    problem = problem_of(fault)
    assert (problem.status, problem.certainty, problem.headers.get("Retry-After")) == (status, certainty, retry)


def test_faults_of_the_handlers_become_problems() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await post(one, "/v1/poll", msgspec.json.encode(POLL))
            newer = msgspec.structs.replace(POLL, incarnation="i2", life=2)
            await post(one, "/v1/poll", msgspec.json.encode(newer))
            with pytest.raises(Problem) as refused:
                await post(one, "/v1/poll", msgspec.json.encode(msgspec.structs.replace(POLL, number=9)))
            assert refused.value.status == 409

    simulate(story)
