"""A listener takes on so much at once, in all and of one credential; the rest is told when to come back."""

import asyncio
import json
import socket as sockets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from cluster.bearer import Bearers, Principal
from cluster.crowd import Crowd, Limits
from cluster.listener import Listener, Reply, Request, Route, bound
from cluster.problem import Problem

TOKENS = {"ann": b"tok-annannannannann", "bob": b"tok-bobbobbobbobbob", "cay": b"tok-caycaycaycaycay"}


class House:
    """A listener whose handler answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.inside = 0
        self.changed = asyncio.Event()

    async def wait(self, _: Request) -> Reply:
        self.inside += 1
        self.changed.set()
        await self.let_go.wait()
        return Reply()

    async def until_inside(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.inside < count:
                self.changed.clear()
                await self.changed.wait()

    @asynccontextmanager
    async def serving(self, socket: sockets.socket, limits: Limits) -> AsyncIterator[str]:
        listener = Listener(
            name="test",
            socket=socket,
            bearers=Bearers([(Principal(name, "operator"), token) for name, token in TOKENS.items()]),
            routes=[Route("GET", "/wait", frozenset({"operator"}), self.wait)],
            max_body_bytes=100,
            limits=limits,
        )
        try:
            yield f"http://127.0.0.1:{await listener.start()}/wait"
        finally:
            await listener.close()


@pytest.fixture
def socket() -> Iterator[sockets.socket]:
    with bound("test", "127.0.0.1", 0) as made:
        yield made


async def ask(session: aiohttp.ClientSession, url: str, name: str) -> tuple[int, str | None, str]:
    async with session.get(url, headers={"Authorization": f"Bearer {TOKENS[name].decode()}"}) as reply:
        body = await reply.read()
        return reply.status, reply.headers.get("Retry-After"), json.loads(body)["certainty"] if body else ""


async def test_too_many_requests_of_one_and_of_all_are_refused_and_room_comes_back(socket: sockets.socket) -> None:
    house = House()
    async with (
        house.serving(socket, Limits(requests=3, requests_of_one=2)) as url,
        aiohttp.ClientSession() as session,
        asyncio.TaskGroup() as group,
    ):
        open_ones = [group.create_task(ask(session, url, "ann")) for _ in range(2)]
        await house.until_inside(2)
        assert await ask(session, url, "ann") == (429, "1", "not_done")
        open_ones.append(group.create_task(ask(session, url, "bob")))
        await house.until_inside(3)
        assert await ask(session, url, "cay") == (503, "1", "not_done")
        house.let_go.set()
        assert [(await one)[0] for one in open_ones] == [200] * 3
        assert (await ask(session, url, "ann"))[0] == 200


async def test_a_connection_too_many_is_told_so_and_closed(socket: sockets.socket) -> None:
    house = House()
    async with house.serving(socket, Limits(connections=2)) as url:
        port = int(url.split(":")[2].split("/")[0])
        first = await asyncio.open_connection("127.0.0.1", port)
        second = await asyncio.open_connection("127.0.0.1", port)
        third = await asyncio.open_connection("127.0.0.1", port)
        answer = (await third[0].read()).decode()
        assert answer.startswith("HTTP/1.1 503 Service Unavailable\r\n")
        assert "\r\nRetry-After: 1\r\n" in answer
        assert json.loads(answer.partition("\r\n\r\n")[2])["certainty"] == "not_done"
        for _, writer in (first, second, third):
            writer.close()
            await writer.wait_closed()
        house.let_go.set()
        async with asyncio.timeout(10), aiohttp.ClientSession() as session:
            while (await ask(session, url, "ann"))[0] == 503:
                pass  # the server has yet to hear of the ends


def test_a_credential_that_ends_its_requests_is_forgotten() -> None:
    crowd = Crowd(Limits(requests=2, requests_of_one=2))
    for n in range(100):
        with crowd.admitted(f"p{n}"):
            pass
    assert crowd._of == {}
    with crowd.admitted("a"), pytest.raises(Problem), crowd.admitted("a"), crowd.admitted("a"):
        pass
    assert (crowd._all, crowd._of) == (0, {})
