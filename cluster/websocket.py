"""Raft links over WebSocket: who dials whom, how two voters greet, and which link of a pair is the current one.

One link per pair: the voter whose name sorts later dials the earlier one. The dialer's first frame is its hello; the
listener answers with its own, or with a goodbye that says why not. When a link ends, each side dials the other's
address afresh, whoever dials by rule, only to tell its voter if nobody listens there any more.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp
import structlog
from aiohttp import web

from cluster import frames, redial
from cluster.bearer import Principal
from cluster.guarded_server import hush_aiohttp
from cluster.peer_link import BROKEN, PeerLink, Socket, say_goodbye, why_ended
from cluster.ports import Identity, Link, Randomness

PATH: Final = "/cluster/raft"
MAX_MESSAGE_BYTES: Final = frames.MAX_FRAME_BYTES + 1  # aiohttp refuses what *reaches* its limit
_CLOSE_WAIT_S: Final = 0.5
REDIAL_PAUSES_S: Final = (0.0, 0.01, 0.03, 0.1)  # before each look at the address of a link that ended

_log = structlog.get_logger("cluster.websocket")


class Voter(Protocol):
    """What the links need of the voter behind them; `cluster.node.Node` is one. None of it blocks."""

    @property
    def identity(self) -> Identity:
        """Who this voter's disk is."""
        ...

    def hello(self, nonce: bytes) -> bytes:
        """Return this voter's first frame for a new link."""
        ...

    def objection(self, hello: frames.Hello) -> str | None:
        """Return why this voter will not speak with who sent this hello, in words for both logs; None if it will."""
        ...

    def connected(self, link: Link) -> None:
        """Note that a link is up; nothing was received on it yet."""
        ...

    def received(self, link: Link, frame: bytes) -> None:
        """Take one frame, in order."""
        ...

    def disconnected(self, link: Link) -> None:
        """Note that a link has ended; nothing more is received on it. Called once for each connected link."""
        ...

    def refused(self, peer: str) -> None:
        """Note that after a peer's link ended its address refused a fresh connection."""
        ...


@dataclass(frozen=True, slots=True)
class LinkTiming:
    """Lengths of time and bounds of a link.

    Attributes:
        handshake_s: to connect and greet, seconds.
        heartbeat_s: silence after which the peer is pinged; it has half of it again to answer, seconds.
        redial_min_s: pause before the first redial, seconds; doubles at each failure.
        redial_max_s: longest pause between redials, seconds.
        queue_bytes: how much may wait to be sent on a link.
    """

    handshake_s: float = 2.0
    heartbeat_s: float = 2.0
    redial_min_s: float = 0.05
    redial_max_s: float = 0.5
    queue_bytes: int = frames.LINK_QUEUE_BYTES


class Refused(Exception):
    """The two ends will not speak; the text says why, `here` which of the two refused."""

    def __init__(self, why: str, *, here: bool, peer: str = "?") -> None:
        super().__init__(why)
        self.why = why
        self.here = here
        self.peer = peer


class Peers:
    """The links of one voter to all others."""

    def __init__(
        self,
        *,
        node: Voter,
        urls: Mapping[str, str],
        token: bytes,
        randomness: Randomness,
        timing: LinkTiming | None = None,
    ) -> None:
        """Keep whom to dial; nothing is dialled before `run`.

        Args:
            node: the voter behind the links.
            urls: base URL of each voter's cluster listener by name; this voter's own may be among them.
            token: the cluster bearer.
            randomness: for nonces and for the jitter between redials.
            timing: lengths of time and bounds, or None for the defaults.
        """
        self._node = node
        self._urls = dict(urls)
        self._token = token
        self._randomness = randomness
        self._timing = timing or LinkTiming()
        self._links: dict[str, PeerLink] = {}
        self._ended = {peer: asyncio.Event() for peer in urls}
        self._last_words: dict[str, str] = {}
        self._open = False

    async def run(self) -> None:
        """Dial, and let others dial in, until cancelled; every link ends with it."""
        hush_aiohttp()
        own = self._node.identity.name
        self._open = True
        try:
            async with (
                aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token.decode('ascii')}"}) as session,
                asyncio.TaskGroup() as group,
            ):
                for peer in sorted(self._urls):
                    if peer != own:
                        group.create_task(self._look_after(peer))
                    if peer < own:
                        group.create_task(self._keep_linked(session, peer))
                await asyncio.Event().wait()  # the first voter by name dials nobody and still answers
        finally:
            self._open = False
            for link in list(self._links.values()):
                link.close("this voter is shutting down")

    async def accept(self, socket: web.WebSocketResponse, principal: Principal) -> None:
        """Serve one connection that a peer dialled, until it ends; the handler of `PATH`."""
        del principal  # all voters share the cluster bearer; the hello says which one this is
        try:
            async with asyncio.timeout(self._timing.handshake_s):
                link = await self._greet_dialer(socket)
        except Refused as refused:
            await self._turn_away(socket, refused)
            return
        except BROKEN:  # TimeoutError is one
            await self._turn_away(socket, Refused("no hello came", here=True))
            return
        await self._serve(link)

    async def _keep_linked(self, session: aiohttp.ClientSession, peer: str) -> None:
        pause_s = self._timing.redial_min_s
        while True:
            linked = await self._dial(session, peer)
            pause_s = self._timing.redial_min_s if linked else min(2 * pause_s, self._timing.redial_max_s)
            await asyncio.sleep(pause_s * (0.5 + 0.5 * self._randomness.random()))

    async def _look_after(self, peer: str) -> None:
        """Each time a peer's link has ended, see whether its address refuses connections, and tell the voter.

        Looked at more than once, since a process that dies closes its sockets one after the other.
        """
        while True:
            await self._ended[peer].wait()
            self._ended[peer].clear()
            for pause_s in REDIAL_PAUSES_S:
                await asyncio.sleep(pause_s)
                if peer in self._links:
                    break
                if await redial.refused(self._urls[peer], self._timing.handshake_s):
                    self._node.refused(peer)
                    break

    async def _dial(self, session: aiohttp.ClientSession, peer: str) -> bool:
        """Dial once and serve the link until it ends; returns whether there was one."""
        linked = False
        try:
            async with (
                asyncio.timeout(self._timing.handshake_s) as limit,
                session.ws_connect(
                    self._urls[peer].rstrip("/") + PATH,
                    heartbeat=self._timing.heartbeat_s,
                    max_msg_size=MAX_MESSAGE_BYTES,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_WAIT_S),
                ) as socket,
            ):
                try:
                    link = await self._greet_listener(socket, peer)
                except Refused as refused:
                    await self._turn_away(socket, refused)
                    return False
                limit.reschedule(None)
                linked = True
                await self._serve(link)
        except TimeoutError:
            self._note(peer, f"no answer within {self._timing.handshake_s:g} s")
        except aiohttp.WSServerHandshakeError as error:
            hint = "; is it the same cluster credential?" if error.status in {401, 403} else ""
            self._note(peer, f"its listener answered HTTP {error.status}{hint}")
        except BROKEN as error:
            self._note(peer, f"cannot connect ({type(error).__name__})")
        return linked

    async def _greet_listener(self, socket: Socket, peer: str) -> PeerLink:
        """Greet as the one who dialled."""
        nonce = self._nonce()
        await socket.send_bytes(self._node.hello(nonce))
        hello = await _hello_from(socket, peer)
        why = self._node.objection(hello)
        if why is None and hello.name != peer:
            why = f"{hello.name} answers at the address of {peer}"
        if why is not None:
            raise Refused(why, here=True, peer=peer)
        return self._link(socket, hello, frames.session_of(nonce, hello.nonce))

    async def _greet_dialer(self, socket: Socket) -> PeerLink:
        """Greet as the one who was dialled."""
        hello = await _hello_from(socket, "?")
        own, why = self._node.identity, self._node.objection(hello)
        if why is None and hello.name < own.name:
            why = f"{hello.name} must wait to be dialled by {own.name}, whose name sorts later"
        if why is None and not self._open:
            why = f"{own.name} is not taking links now"
        if why is not None:
            raise Refused(why, here=True, peer=hello.name)
        nonce = self._nonce()
        await socket.send_bytes(self._node.hello(nonce))
        return self._link(socket, hello, frames.session_of(hello.nonce, nonce))

    def _link(self, socket: Socket, hello: frames.Hello, session: str) -> PeerLink:
        return PeerLink(socket, hello=hello, session=session, queue_bytes=self._timing.queue_bytes)

    async def _serve(self, link: PeerLink) -> None:
        """Make this the current link of its pair, and carry its frames until it ends."""
        older = self._links.get(link.peer)
        if older is not None:
            older.close("a newer connection took its place")
            self._leave(older)
        self._links[link.peer] = link
        self._last_words.pop(link.peer, None)
        _log.info("link up", peer=link.peer, session=link.session)
        self._node.connected(link)
        try:
            why = await link.run(self._node.received)
            _log.info("link down", peer=link.peer, session=link.session, why=why)
        finally:
            self._leave(link)

    def _leave(self, link: PeerLink) -> None:
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            self._node.disconnected(link)
            if link.peer in self._ended:
                self._ended[link.peer].set()

    async def _turn_away(self, socket: Socket, refused: Refused) -> None:
        self._note(refused.peer, f"{'refused' if refused.here else 'it refused'}: {refused.why}")
        await say_goodbye(socket, frames.goodbye("", refused.why) if refused.here else None, refused.why)

    def _note(self, peer: str, why: str) -> None:
        """Log why there is no link, once until the reason changes: peers redial several times a second."""
        peer = peer if peer in self._urls else "?"  # bounds what a stranger can make us remember
        if self._last_words.get(peer) != why:
            self._last_words[peer] = why
            _log.warning("no link", peer=peer, why=why)

    def _nonce(self) -> bytes:
        return self._randomness.getrandbits(8 * frames.NONCE_BYTES).to_bytes(frames.NONCE_BYTES, "big")


async def _hello_from(socket: Socket, peer: str) -> frames.Hello:
    """Return the peer's first frame.

    Raises:
        Refused: it is no hello; the peer's own words if it was a goodbye.
    """
    message = await socket.receive()
    if message.type is not aiohttp.WSMsgType.BINARY:
        raise Refused(why_ended(message), here=False, peer=peer)
    try:
        return frames.decode_hello(message.data)
    except frames.Malformed as fault:
        farewell = _farewell_in(message.data)
        raise Refused(farewell or str(fault), here=farewell is None, peer=peer) from None


def _farewell_in(frame: bytes) -> str | None:
    try:
        message = frames.decode_frame(frame).message
    except frames.Malformed:
        return None
    return message.why if isinstance(message, frames.Goodbye) else None
