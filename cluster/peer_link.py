"""One authenticated connection between two voters: frames in order, a bounded queue, one goodbye."""

import asyncio
import contextlib
import socket as sockets
from collections import deque
from collections.abc import Callable
from typing import Final

import aiohttp
from aiohttp import web

from cluster import frames

GOODBYE_S: Final = 1.0
UNACKNOWLEDGED_MS: Final = 5_000
_CLOSE_CODE: Final = 4000  # of the range that RFC 6455 leaves to applications
_MAX_REASON_BYTES: Final = 120

BROKEN: Final = (OSError, aiohttp.ClientError)  # what a socket raises once its connection is gone

Socket = aiohttp.ClientWebSocketResponse | web.WebSocketResponse


class PeerLink:
    """A `ports.Link` over a WebSocket whose two ends have greeted each other.

    Frames leave in the order of `send`. The link ends once, for one reason, and delivers nothing after that.
    """

    def __init__(self, socket: Socket, *, hello: frames.Hello, session: str, queue_bytes: int) -> None:
        """Take over a greeted socket.

        Args:
            socket: the WebSocket; closed by the time `run` returns.
            hello: what the voter at the other end said it is.
            session: identity of this connection.
            queue_bytes: how much may wait to be sent; more ends the link.
        """
        self._socket = socket
        self._peer, self._disk_id = hello.name, hello.disk_id
        self._session = session
        self._queue_bytes = queue_bytes
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._why = ""
        self._ended_here = False

    @property
    def peer(self) -> str:
        """Name of the voter at the other end."""
        return self._peer

    @property
    def disk_id(self) -> str:
        """Identity of the disk at the other end, as its hello said."""
        return self._disk_id

    @property
    def session(self) -> str:
        """Identity of this connection, the same at both ends, never used again."""
        return self._session

    def send(self, frame: bytes) -> None:
        """Queue one frame; never blocks and never raises. What does not fit ends the link."""
        if self._ended.is_set():
            return
        if self._queued_bytes + len(frame) > self._queue_bytes:
            self.close(f"overflow: more than {self._queue_bytes} bytes wait to be sent")
            return
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        self._ready.set()

    def close(self, why: str) -> None:
        """End the link with a goodbye; what is still queued is lost with it. Idempotent."""
        self._ended_here = self._ended_here or not self._ended.is_set()
        self._end(why)

    async def run(self, received: Callable[["PeerLink", bytes], None]) -> str:
        """Carry frames both ways until the link ends; returns why it did.

        Blocks until `close`, the peer's goodbye, a silent peer (the socket's heartbeat) or cancellation, and then for
        at most `GOODBYE_S`.

        Args:
            received: called with each frame in order; must not block.
        """
        _give_up_unacknowledged(self._socket)
        async with asyncio.TaskGroup() as group:
            both = [group.create_task(self._send_all()), group.create_task(self._receive_all(received))]
            await self._ended.wait()
            for task in both:
                task.cancel()
        await say_goodbye(
            self._socket, frames.goodbye(self._session, self._why) if self._ended_here else None, self._why
        )
        return self._why

    def _end(self, why: str) -> None:
        if not self._ended.is_set():
            self._why = why
            self._queue.clear()
            self._ended.set()

    async def _send_all(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self._queue:
                frame = self._queue.popleft()
                try:
                    await self._socket.send_bytes(frame)
                except BROKEN:
                    self._end("the connection broke")
                    return
                self._queued_bytes -= len(frame)  # counted until the socket has taken it

    async def _receive_all(self, received: Callable[["PeerLink", bytes], None]) -> None:
        while True:
            try:
                message = await self._socket.receive()
            except BROKEN:  # a ping came in before the peer's end of the connection, and its pong has nowhere to go
                self._end("the connection broke")
                return
            if self._ended.is_set():
                return
            if message.type is not aiohttp.WSMsgType.BINARY:
                self._end(why_ended(message))
                return
            received(self, message.data)


def why_ended(message: aiohttp.WSMessage) -> str:
    """Return in words what a message that is no frame says about the end of its connection."""
    if message.type is aiohttp.WSMsgType.CLOSE:
        return f"the peer closed: {message.extra or f'code {message.data}'}"
    if message.type is aiohttp.WSMsgType.TEXT:
        return "the peer sent text where only frames are spoken"
    if isinstance(message.data, aiohttp.WebSocketError):
        return f"the peer broke the protocol of the socket (code {int(message.data.code)})"
    return "the connection broke"


async def say_goodbye(socket: Socket, last_frame: bytes | None, why: str) -> None:
    """Send a last frame, if there is one, and close, within `GOODBYE_S`; a peer that is gone misses it."""
    with contextlib.suppress(*BROKEN):
        async with asyncio.timeout(GOODBYE_S):
            if last_frame is not None:
                await socket.send_bytes(last_frame)
            await socket.close(code=_CLOSE_CODE, message=why.encode("ascii", "replace")[:_MAX_REASON_BYTES])


def _give_up_unacknowledged(socket: Socket) -> None:
    """Let the kernel drop a peer that stops acknowledging, so that unsent frames do not outlive their link."""
    tcp = socket.get_extra_info("socket")
    if tcp is not None and hasattr(sockets, "TCP_USER_TIMEOUT"):  # Linux only; elsewhere the heartbeat must do
        tcp.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
