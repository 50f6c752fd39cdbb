"""aiohttp's server with its three leaks closed.

Its parser answers 400 to a NUL or an oversized header before any handler runs, prints part of the header in its log,
and resets the connection before a sender of a megabyte has read the answer. And a BaseException in a handler ends
only that connection's task. Here: an unreadable request is answered in our own form after the sender has stopped
sending, nothing of a request is logged, and FailStop is handed to whoever runs the process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from cluster.crowd import too_busy
from cluster.outcome import FailStop
from cluster.problem import CONTENT_TYPE, Problem, headers_too_large, unauthorized

LINGER_S: Final = 2.0
LINGER_MAX_BYTES: Final = 16 << 20
MAX_HEADERS: Final = 128
IDLE_S: Final = 75.0

_AIOHTTP_LOGGERS: Final = ("access", "client", "internal", "server", "web", "websocket")

_log = structlog.get_logger("cluster.listener")


class GuardedServer(web.Server):
    """Makes a `GuardedConnection` of every accepted connection."""

    def __init__(
        self,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        fail_stop: Callable[[FailStop], None],
        max_header_bytes: int,
        max_connections: int,
    ) -> None:
        """Hush aiohttp's loggers and prepare to serve.

        Args:
            answer: answers one request; must not raise.
            fail_stop: told of a FailStop out of `answer`; the connection has ended without an answer by then.
            max_header_bytes: limit of the request line and of each header field.
            max_connections: open at once; one more is told to come back, and closed.
        """
        super().__init__(answer)
        hush_aiohttp()
        self._fail_stop = fail_stop
        self._max_header_bytes = max_header_bytes
        self._max_connections = max_connections
        self._is_full = False

    @property
    def is_full(self) -> bool:
        """Whether no further connection fits; logged when that begins."""
        was, self._is_full = self._is_full, len(self.connections) >= self._max_connections
        if self._is_full and not was:
            _log.warning("connections turned away", open=len(self.connections))
        return self._is_full

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of one new connection."""
        return GuardedConnection(
            self,
            loop=self._loop,
            fail_stop=self._fail_stop,
            access_log=None,
            auto_decompress=False,  # a small body must not grow past the body limit
            keepalive_timeout=IDLE_S,
            lingering_time=LINGER_S,
            max_line_size=self._max_header_bytes,
            max_field_size=self._max_header_bytes,
            max_headers=MAX_HEADERS,
        )


class GuardedConnection(web.RequestHandler):
    """One connection, whose unreadable requests are answered like wrong bearers."""

    def __init__(self, server: GuardedServer, *, fail_stop: Callable[[FailStop], None], **settings: Any) -> None:  # noqa: ANN401 - aiohttp's own settings, passed on
        super().__init__(server, **settings)
        self._server = server
        self._fail_stop = fail_stop
        self._refused = False
        self._discarded_bytes = 0
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, or turn away who does not fit: descriptors are left for the links to other voters."""
        if not self._server.is_full:
            super().connection_made(transport)
            return
        self._refused = True
        assert isinstance(transport, asyncio.Transport)
        transport.write(_turned_away(too_busy()))
        transport.close()

    async def start(self) -> None:
        """Serve requests until the connection ends; aiohttp runs this as the connection's task."""
        try:
            await super().start()
        except FailStop as stop:
            self._fail_stop(stop)

    def data_received(self, data: bytes) -> None:
        """Take bytes in; after a refusal only to let the sender finish and read the answer."""
        if not self._refused:
            super().data_received(data)
            return
        self._discarded_bytes += len(data)
        if self._discarded_bytes > LINGER_MAX_BYTES:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that nobody reads any more."""
        self._gone.set()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that could not be read: no bearer was seen, so 401 unless it was merely too large."""
        del status, message  # both quote the request
        if request.writer.output_size > 0:
            raise ConnectionError("part of an answer is already sent")
        assert isinstance(exc, HttpProcessingError), f"{type(exc).__name__} left the listener's middleware"
        self._refused = True
        too_large = isinstance(exc, LineTooLong) or "Too many headers" in exc.message
        kind = "headers_too_large" if too_large else "unreadable"
        _log.warning("request refused unread", kind=kind, error=type(exc).__name__)
        problem = headers_too_large(self.max_field_size) if too_large else unauthorized()
        return _LastAnswer(problem, self._linger)

    async def _linger(self) -> None:
        """Wait until the sender has seen our end and hung up, so that no reset overtakes the answer."""
        transport = self.transport
        if transport is None:
            return
        if transport.can_write_eof():
            transport.write_eof()
        try:
            async with asyncio.timeout(LINGER_S):
                await self._gone.wait()
        except TimeoutError:
            self.force_close()


def _turned_away(problem: Problem) -> bytes:
    body = problem.body()
    head = [f"HTTP/1.1 {problem.status} {problem.title}", f"Content-Type: {CONTENT_TYPE}"]
    head += [f"{name}: {value}" for name, value in problem.headers.items()]
    head += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode("ascii") + body


class _LastAnswer(web.Response):
    """A problem after which the connection ends, once its sender has stopped sending."""

    def __init__(self, problem: Problem, linger: Callable[[], Awaitable[None]]) -> None:
        super().__init__(
            status=problem.status, body=problem.body(), headers={**problem.headers, "Content-Type": CONTENT_TYPE}
        )
        self._linger = linger
        self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        await self._linger()


class _Hushed(logging.Filter):
    """Replaces a record of aiohttp, which may quote a request, by one that says only that there was one."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[0] if record.exc_info else None
        _log.log(record.levelno, "aiohttp reported", logger_name=record.name, error=error.__name__ if error else None)
        return False


_HUSHED: Final = _Hushed()


def hush_aiohttp() -> None:
    """Keep aiohttp's loggers from printing anything of a request. Idempotent: a logger keeps one filter once."""
    for name in _AIOHTTP_LOGGERS:
        logging.getLogger(f"aiohttp.{name}").addFilter(_HUSHED)
