"""The HTTP adapter against real sockets on loopback."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.unit.worker.world import claim
from worker.client import NotAnswered, Rejected, ReplyLost, Route, Unreachable
from worker.http_admission import HttpAdmission
from worker.protocol import Answer, Answers, NotOwner, PermitRequest, Permits, Poll, PollReply

TOKEN = b"marker-of-a-secret-token"
BINDING = claim(("r1", 1), incarnation="i", ledger="l").binding
PERMITS = Permits(1, 3, [PermitRequest(BINDING, "x")])
GRANTED = Answers([Answer("granted", token=7)])
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def voter(handler: Handler) -> AsyncIterator[str]:
    server = web.Server(handler)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def answering(body: Any, status: int = 200, **headers: str) -> Handler:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=msgspec.json.encode(body), status=status, headers=headers)

    return handle


async def closed_port() -> str:
    async with voter(answering(GRANTED)) as url:
        return url


async def test_a_message_arrives_whole_with_its_bearer() -> None:
    seen: list[tuple[str, str, Permits]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        message = msgspec.json.decode(await request.read(), type=Permits)
        seen.append((request.path, request.headers["Authorization"], message))
        return web.Response(body=msgspec.json.encode(GRANTED))

    async with voter(handle) as url, HttpAdmission([url + "/"], TOKEN) as admission:
        assert await admission.permits(PERMITS) == GRANTED.items
    assert seen == [("/v1/permits", f"Bearer {TOKEN.decode()}", PERMITS)]


async def test_a_poll_carries_claims() -> None:
    reply = PollReply(1, "node1", 4, "c", 1, [claim(("r1", 1), incarnation="i", ledger="l")], [])
    async with voter(answering(reply)) as url, HttpAdmission([url], TOKEN) as admission:
        poll = Poll(version=1, incarnation="i", ledger="l", life=1, number=1, epoch=0, slots=1, held=[])
        assert await admission.poll(poll) == reply


async def test_it_finds_the_owner_and_stays_with_it() -> None:
    asked: list[str] = []

    def counting(name: str, handler: Handler) -> Handler:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            asked.append(name)
            return await handler(request)

        return handle

    async with (
        voter(counting("other", answering(NotOwner("node2", []), 421))) as other,
        voter(counting("owner", answering(GRANTED))) as owner,
        HttpAdmission([await closed_port(), other, owner], TOKEN) as admission,
    ):
        await admission.permits(PERMITS)
        await admission.permits(PERMITS)
    assert asked == ["other", "owner", "owner"]


async def test_hints_lead_only_to_configured_urls() -> None:
    async with (
        voter(answering(GRANTED)) as stranger,
        voter(answering(NotOwner("x", [stranger]), 421)) as other,
        HttpAdmission([other], TOKEN) as admission,
    ):
        with pytest.raises(Unreachable, match="no owner at"):
            await admission.permits(PERMITS)


async def test_redirects_are_not_followed() -> None:
    async with voter(answering(GRANTED)) as stranger:
        handler = answering({}, 307, Location=stranger + "/v1/permits")
        async with voter(handler) as url, HttpAdmission([url], TOKEN) as admission:
            with pytest.raises(Rejected, match="status 307"):
                await admission.permits(PERMITS)


async def test_refused_connections_are_known_not_to_have_arrived() -> None:
    async with HttpAdmission([await closed_port()], TOKEN) as admission:
        with pytest.raises(Unreachable):
            await admission.permits(PERMITS)


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "kind", "said"),
    [
        (cut, ReplyLost, "the reply was lost"),
        (answering({"title": "outcome unknown", "certainty": "unknown"}, 503), ReplyLost, "outcome unknown"),
        (answering({"title": "busy", "certainty": "not_done"}, 503), Rejected, "busy"),
        (answering({"title": "too many"}, 429), Rejected, "too many"),
        (answering({"title": "who are you"}, 401), Rejected, "who are you"),
        (
            answering({"title": "no", "detail": "another\ncluster" + "x" * 999}, 409),
            Rejected,
            "no: another clusterx{385}$",
        ),
        (answering(["not a problem"], 500), ReplyLost, "status 500"),
        (answering({"nonsense": 1}), ReplyLost, "cannot be read"),
        (answering(Answers([])), ReplyLost, "0 answers came to 1 items"),
        (answering("nonsense", 421), ReplyLost, "cannot be read"),
    ],
)
async def test_kinds_of_failure(handler: Handler, kind: type[NotAnswered], said: str) -> None:
    async with voter(handler) as url, HttpAdmission([url], TOKEN) as admission:
        with capture_logs() as logs, pytest.raises(kind, match=said) as caught:
            await admission.permits(PERMITS)
    assert TOKEN.decode() not in str(caught.value) + repr(admission) + str(logs)


@pytest.mark.parametrize(("said", "pause_s"), [("7", 7.0), ("9999", 30.0), ("soon", None), ("-1", None)])
async def test_retry_after_is_heard_within_bounds(said: str, pause_s: float | None) -> None:
    handler = answering({"certainty": "not_done"}, 503, **{"Retry-After": said})
    async with voter(handler) as url, HttpAdmission([url], TOKEN) as admission:
        with pytest.raises(Rejected) as caught:
            await admission.permits(PERMITS)
    assert caught.value.retry_after_s == pause_s


async def test_after_a_loss_the_next_message_goes_elsewhere() -> None:
    async with (
        voter(cut) as bad,
        voter(answering(GRANTED)) as good,
        HttpAdmission([bad, good], TOKEN) as admission,
    ):
        with pytest.raises(ReplyLost):
            await admission.permits(PERMITS)
        assert await admission.permits(PERMITS) == GRANTED.items


async def test_a_poll_can_be_cut_short() -> None:
    arrived, over = asyncio.Event(), asyncio.Event()

    async def hang(_: web.BaseRequest) -> web.StreamResponse:
        arrived.set()
        await over.wait()
        return web.Response()

    async with voter(hang) as url, HttpAdmission([url], TOKEN) as admission, asyncio.TaskGroup() as group:
        poll = Poll(version=1, incarnation="i", ledger="l", life=1, number=1, epoch=0, slots=0, held=[], wait_s=5.0)
        task = group.create_task(admission.poll(poll))
        await arrived.wait()
        task.cancel()
        over.set()


def test_hinted_urls_come_first_and_failed_ones_last() -> None:
    route = Route(["a", "b", "c", "b"])
    assert route.order() == ["a", "b", "c"]
    route.hinted("a", ["c", "x"])
    assert route.order() == ["c", "b", "a"]
    route.failed("c")
    assert route.order() == ["b", "a", "c"]
    with pytest.raises(ValueError, match="at least one"):
        Route([])
