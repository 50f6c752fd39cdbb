"""An HTTP proxy between one worker and the voters, in a thread of the test, that stops exactly one message."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
import msgspec
from aiohttp import web

HANG_S = 30.0
MISDIRECTED = 421
Side = Literal["request", "reply"]
Body = dict[str, Any]


def any_message(_asked: Body, _reply: Body) -> bool:
    return True


def grants(_asked: Body, reply: Body) -> bool:
    """Return whether a reply grants a permit."""
    return any(item.get("kind") == "granted" for item in reply.get("items", ()))


def claims(_asked: Body, reply: Body) -> bool:
    """Return whether the reply to a poll lists a claim."""
    return bool(reply.get("claims"))


def finishes(asked: Body, _reply: Body) -> bool:
    """Return whether a request reports a result."""
    return any(item.get("kind") == "finish" for item in asked.get("items", ()))


@dataclass
class Gate:
    """Holds back the first message that it is about, until it is let through or dropped.

    `about` gets the request and the reply, which is empty on its way in.

    Attributes:
        reached: the message has come so far; of a reply, the voters have done what was asked.
    """

    path: str
    side: Side
    about: Callable[[Body, Body], bool]
    reached: threading.Event = field(default_factory=threading.Event)
    _free: threading.Event = field(default_factory=threading.Event)
    _passes: bool = False

    def wait(self) -> None:
        """Wait until the message is held here."""
        assert self.reached.wait(HANG_S), f"no {self.side} of {self.path} came to the gate"

    def drop(self) -> None:
        """Let it never arrive: its connection is reset."""
        self._free.set()

    def let_through(self) -> None:
        """Let it arrive, late."""
        self._passes = True
        self._free.set()

    def held(self) -> bool:
        """Hold a message; returns whether it may go on. Blocks a thread of the proxy's pool."""
        self.reached.set()
        assert self._free.wait(HANG_S)
        return self._passes


@dataclass(frozen=True)
class Exchange:
    """A request that was answered: its path and body, and status and body of the reply."""

    path: str
    asked: Body
    status: int
    reply: Body


class Door:
    """What one worker takes for the voters' admission listeners.

    Attributes:
        open: False: whoever knocks is cut off.
        exchanges: what the voters answered, arrived or not.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.open = True
        self.urls = list(urls)
        self.exchanges: list[Exchange] = []
        self.port = 0
        self._gates: list[Gate] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(HANG_S)

    def gate(self, path: str, side: Side, about: Callable[[Body, Body], bool] = any_message) -> Gate:
        """Hold back the next message of a path and side, of those it is about."""
        self._gates.append(gate := Gate(f"/v1/{path}", side, about))
        return gate

    def losing(self, path: str, side: Side, about: Callable[[Body, Body], bool] = any_message) -> Gate:
        """Lose the next message of a path and side, of those it is about."""
        gate = self.gate(path, side, about)
        gate.drop()
        return gate

    def answers(self, path: str) -> list[Body]:
        """Return every item's answer of a path, oldest first."""
        return [item for each in self.of(path) if each.status == 200 for item in each.reply["items"]]

    def of(self, path: str) -> list[Exchange]:
        """Return the exchanges of a path, oldest first."""
        return [each for each in self.exchanges if each.path == f"/v1/{path}"]

    def close(self) -> None:
        """Cut all off, and end the thread."""
        self.open = False
        for gate in self._gates:
            gate.drop()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        self._loop.close()

    async def _run(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/{path}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        async with aiohttp.ClientSession() as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        asked = msgspec.json.decode(raw)
        if not self.open or not await self._passes(request.path, "request", asked, {}):
            return self._cut(request)
        found = await self._forward(request, raw)
        if found is None:
            return self._cut(request)
        status, headers, answer = found
        reply = msgspec.json.decode(answer)
        self.exchanges.append(Exchange(request.path, asked, status, reply))
        if not self.open or not await self._passes(request.path, "reply", asked, reply):
            return self._cut(request)
        return web.Response(status=status, headers=headers, body=answer)

    async def _passes(self, path: str, side: Side, asked: Body, reply: Body) -> bool:
        for gate in self._gates:
            if (gate.path, gate.side) == (path, side) and gate.about(asked, reply):
                self._gates.remove(gate)
                return await asyncio.to_thread(gate.held)
        return True

    async def _forward(self, request: web.Request, raw: bytes) -> tuple[int, dict[str, str], bytes] | None:
        """Ask the voters in turn, as a worker would, until one takes it; None if that one's answer is lost."""
        found = None
        headers = {"Authorization": request.headers["Authorization"], "Content-Type": request.content_type}
        for url in self.urls:
            limits = aiohttp.ClientTimeout(total=10.0, sock_connect=1.0)
            try:
                async with self._session.post(url + request.path, data=raw, headers=headers, timeout=limits) as reply:
                    kept = {key: reply.headers[key] for key in ("Content-Type", "Retry-After") if key in reply.headers}
                    found = reply.status, kept, await reply.read()
            except aiohttp.ClientConnectorError:
                continue
            except (aiohttp.ClientError, TimeoutError):
                return None
            if found[0] != MISDIRECTED:
                return found
        return found

    @staticmethod
    def _cut(request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
