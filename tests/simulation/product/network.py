"""The network of the simulated hosts: links of voters, and calls over HTTP, as the seed lets them through.

What a caller learns is what TCP would tell: a refused connection (never sent), one that cannot be made (never sent),
or a reply that did not come (perhaps done). Links lose nothing but a suffix, and then end.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from cluster.listener import Reply
from tests.simulation.product.loop import Life, Loop

DELAY_S = 0.004  # longest way of a message, unless a link is slow
PING_S = 2.0  # half-open links are given up after this to half of it more
REDIAL_S = 0.2
CONNECT_S = 1.0


class NoConnection(Exception):
    """The request was never sent."""


class Lost(Exception):
    """The request may have been handled; no reply came."""


class Linked(Protocol):
    """A voter as its links see it."""

    def connected(self, link: "End") -> None: ...
    def received(self, link: "End", frame: bytes) -> None: ...
    def disconnected(self, link: "End") -> None: ...
    def refused(self, peer: str) -> None: ...


@dataclass
class Host:
    """A machine: what runs on it now, if anything, and what that serves."""

    name: str
    life: Life | None = None
    powered: bool = True
    node: Linked | None = None
    disk_id: str = ""
    serve: Callable[["Call"], Awaitable[Reply]] | None = None


@dataclass(frozen=True)
class Call:
    """One request of a client."""

    source: str
    listener: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class End:
    """One end of a link between two voters."""

    def __init__(self, network: "Network", life: Life, host: Host, peer: Host, session: str) -> None:
        self._network, self.life, self.host, self.peer_host, self.session = network, life, host, peer, session
        self.peer, self.disk_id = peer.name, peer.disk_id
        self.open = True
        self.other: End
        self.last_s = 0.0  # when the newest frame towards `other` comes in
        self.dammed: deque[bytes] = deque()  # sent while nothing got through

    def send(self, frame: bytes) -> None:
        if self.life.alive and self.open:
            self._network.sent(self, frame)

    def close(self, why: str) -> None:
        del why
        if self.life.alive:
            self._network.cut(self.host.name, self.peer)


class Network:
    """All that goes between hosts."""

    def __init__(self, loop: Loop, random: Random) -> None:
        self._loop, self._random = loop, random
        self.hosts: dict[str, Host] = {}
        self.blocked: set[tuple[str, str]] = set()
        self.slow: dict[tuple[str, str], float] = {}
        self.loss = 0.0  # of a call's request or reply
        self._links: dict[frozenset[str], tuple[End, End]] = {}
        self._sessions = 0
        self.losing: dict[str, int] = {}  # how many of the next replies that matter are lost, by path
        self.matters: Callable[[Reply], bool] = bool
        self.reply_lost: Callable[[Reply], object] = bool
        self._serving: dict[Life, list[tuple[str, asyncio.Future[Reply]]]] = {}

    # ---- what the seed does to it

    def block(self, source: str, target: str) -> None:
        """Let nothing through from one host to another; links notice after a while."""
        self.blocked.add((source, target))
        ends = self._links.get(frozenset((source, target)))
        if ends:
            self._loop.after(PING_S * (1 + 0.5 * self._random.random()), None, self._give_up, ends)

    def unblock(self, source: str, target: str) -> None:
        """Let messages through again; what was sent on links meanwhile comes late, as TCP repeats it."""
        self.blocked.discard((source, target))
        for end in self._links.get(frozenset((source, target)), ()):
            if end.host.name == source:
                while end.dammed:
                    self._deliver_later(end, end.dammed.popleft())

    def heal(self) -> None:
        """Let everything through."""
        for pair in sorted(self.blocked):
            self.unblock(*pair)
        self.slow.clear()
        self.losing.clear()
        self.loss = 0.0

    def _give_up(self, ends: tuple[End, End]) -> None:
        one, two = ends[0].host.name, ends[1].host.name
        if self._links.get(frozenset((one, two))) is ends and {(one, two), (two, one)} & self.blocked:
            self.cut(one, two)

    # ---- links

    def keep_linked(self) -> None:
        """Dial whoever is there and not linked, now and ever again."""
        names = [name for name, host in self.hosts.items() if host.node is not None]
        for rank, one in enumerate(names):
            for two in names[rank + 1 :]:
                self._dial(one, two)
        self._loop.after(REDIAL_S * (0.5 + 0.5 * self._random.random()), None, self.keep_linked)

    def _dial(self, one: str, two: str) -> None:
        key, hosts = frozenset((one, two)), (self.hosts[one], self.hosts[two])
        able = all(host.life is not None and host.life.alive and not self._paused(host) for host in hosts)
        if key in self._links or not able or {(one, two), (two, one)} & self.blocked:
            return
        self._sessions += 1
        session = f"s{self._sessions}"
        ends = tuple(End(self, a.life, a, b, session) for a, b in (hosts, hosts[::-1]))
        ends[0].other, ends[1].other = ends[1], ends[0]
        self._links[key] = ends
        for end in ends:
            self._loop.at(self._loop.now_s, end.life, end.host.node.connected, end)

    def _paused(self, host: Host) -> bool:
        return host.life.stalled_until_s > self._loop.now_s

    def cut(self, one: str, two: str) -> None:
        """End a link: each side may still read a prefix of what is on its way, the rest is lost."""
        ends = self._links.pop(frozenset((one, two)), ())
        for end in ends:
            end.open = False
        for end in ends:
            if end.life.alive:
                self._loop.after(0.001, end.life, end.host.node.disconnected, end)

    def sent(self, end: End, frame: bytes) -> None:
        if (end.host.name, end.peer) in self.blocked:
            end.dammed.append(frame)
        else:
            self._deliver_later(end, frame)

    def _deliver_later(self, end: End, frame: bytes) -> None:
        end.last_s = max(end.last_s, self._loop.now_s + self._delay_s(end.host.name, end.peer))
        self._loop.at(end.last_s, end.other.life, self._deliver, end, frame)

    def _deliver(self, end: End, frame: bytes) -> None:
        if end.open or self._random.random() < 0.5:
            end.peer_host.node.received(end.other, frame)
        else:
            end.dammed.clear()

    def _delay_s(self, source: str, target: str) -> float:
        return self.slow.get((source, target), DELAY_S) * self._random.random()

    # ---- death

    def died(self, host: Host, life: Life, *, power: bool) -> None:
        """A process has ended; its kernel resets its connections, unless that is gone too."""
        for (one, two), ends in [(tuple(sorted(key)), ends) for key, ends in self._links.items()]:
            if host.name not in {one, two}:
                continue
            peer = two if one == host.name else one
            if power:
                self._loop.after(PING_S * (1 + 0.5 * self._random.random()), None, self._cut_if, ends)
            else:
                self.cut(one, two)
                if (peer, host.name) not in self.blocked:
                    self._loop.after(0.05 * self._random.random(), None, self._refuse, peer, host.name)
        for source, reply in self._serving.pop(life, ()):
            if not power and (host.name, source) not in self.blocked and not reply.done():
                reply.set_exception(Lost(f"{host.name} reset the connection"))

    def _cut_if(self, ends: tuple[End, End]) -> None:
        one, two = ends[0].host.name, ends[1].host.name
        if self._links.get(frozenset((one, two))) is ends:
            self.cut(one, two)

    def _refuse(self, name: str, peer: str) -> None:
        host, other = self.hosts[name], self.hosts[peer]
        if host.life is not None and host.life.alive and (other.life is None or not other.life.alive):
            self._loop.at(self._loop.now_s, host.life, host.node.refused, peer)

    # ---- calls

    async def call(self, target: str, call: Call, within_s: float) -> Reply:
        """Send one request and return its reply, as a client of that host.

        Raises:
            NoConnection: nothing was sent.
            Lost: it may have been handled.
        """
        host, source = self.hosts[target], call.source
        connected = self._random.random() < 0.5  # an earlier call left its connection open
        there, back = (source, target) in self.blocked, (target, source) in self.blocked
        if host.life is None or not host.life.alive:
            if not host.powered or there or back:
                await asyncio.sleep(CONNECT_S)
            else:
                await asyncio.sleep(self._delay_s(source, target))
            raise NoConnection(f"{target} refuses")
        if (there or back) and not connected:
            await asyncio.sleep(CONNECT_S)
            raise NoConnection(f"{target} cannot be connected to")
        reply: asyncio.Future[Reply] = self._loop.create_future()
        reply.add_done_callback(_looked_at)
        if not there and not self._loses():
            delay_s = self._delay_s(source, target)
            self._serving.setdefault(host.life, []).append((source, reply))
            self._loop.after(delay_s, host.life, self._serve, host, host.life, call, reply)
        try:
            async with asyncio.timeout(within_s):
                return await reply
        except TimeoutError:
            raise Lost(f"{target} did not answer within {within_s:g} s") from None

    def _serve(self, host: Host, life: Life, call: Call, reply: "asyncio.Future[Reply]") -> None:
        self._loop.spawn(life, self._answer(host, life, call, reply))

    async def _answer(self, host: Host, life: Life, call: Call, reply: "asyncio.Future[Reply]") -> None:
        answer = await host.serve(call)
        entry = (call.source, reply)
        if entry in self._serving.get(life, ()):
            self._serving[life].remove(entry)
        lost = self._loses() or self._loses_next(call.path, answer)
        if lost or (host.name, call.source) in self.blocked:
            self.reply_lost(answer)
        else:
            self._loop.after(self._delay_s(host.name, call.source), None, self._give, reply, answer)

    def _give(self, reply: "asyncio.Future[Reply]", answer: Reply) -> None:
        if reply.done():
            self.reply_lost(answer)
        else:
            reply.set_result(answer)

    def _loses_next(self, path: str, answer: Reply) -> bool:
        """Whether this is one of the next replies of a kind that the plan wants lost."""
        if self.losing.get(path, 0) <= 0 or not self.matters(answer):
            return False
        self.losing[path] -= 1
        return True

    def _loses(self) -> bool:
        return self.loss > 0 and self._random.random() < self.loss


def _looked_at(reply: "asyncio.Future[Reply]") -> None:
    """Nobody may be left to look at it."""
    if not reply.cancelled():
        reply.exception()
