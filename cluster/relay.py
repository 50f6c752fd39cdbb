"""One hop from the voter that was asked to the voter that drives, with the caller's own bearer beside ours."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from cluster.guarded_server import hush_aiohttp
from cluster.listener import Reply, Request
from cluster.problem import CONTENT_TYPE, Problem

PATH: Final = "/cluster/relay"
MAX_REPLY_BYTES: Final = 8 << 20
CALLER: Final = "Fencepost-Caller"
TARGET: Final = "Fencepost-Path"
RELAYED: Final = "Fencepost-Relayed"
KEY: Final = "Idempotency-Key"
_KEPT_HEADERS: Final = ("Allow", "Fencepost-Next", "Fencepost-Stale", "Retry-After", "WWW-Authenticate")
_REFUSED_BY_LISTENER: Final = frozenset({401, 403, 404, 405, 413, 429, 431, 503})  # before any handler saw the request


class Unreachable(Exception):
    """The request was definitely not handled there: no connection, or turned away before any handler."""


class ReplyLost(Exception):
    """The request may have been handled there; its answer did not arrive."""


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """A caller's request on its way to another voter; bearer and body stay out of its repr.

    Attributes:
        method: of the caller's request.
        path: target path with its query, as the caller sent it.
        caller: raw value of the caller's Authorization header; the far end judges it anew.
        idempotency_key: the caller's, or None.
    """

    method: str
    path: str
    caller: bytes = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    idempotency_key: str | None = None
    content_type: str = "application/json"


class RelayClient:
    """The sending end."""

    def __init__(self, *, urls: Mapping[str, str], token: bytes, connect_s: float = 2.0, reply_s: float = 10.0) -> None:
        """Keep the addresses; connects at first use.

        Args:
            urls: base URL of each voter's cluster listener by name.
            token: the cluster bearer.
            connect_s: to connect, seconds.
            reply_s: for the whole exchange, seconds.
        """
        self._urls = dict(urls)
        self._authorization = f"Bearer {token.decode('ascii')}"
        self._timeout = aiohttp.ClientTimeout(total=reply_s, connect=connect_s)
        self._session: aiohttp.ClientSession | None = None

    async def relay(self, voter: str, request: RelayRequest) -> Reply:
        """Send one request to one voter and return its answer, whatever its status.

        Blocks for at most `reply_s`; cancelling it leaves the outcome unknown. Idempotent only with the same idempotency
        key. A POST is sent once; a GET, which changes nothing, may be sent again when its connection breaks.

        Raises:
            Unreachable: it was definitely not handled.
            ReplyLost: it may have been handled.
        """
        if voter not in self._urls:
            raise Unreachable(f"no address of {voter} is configured")
        try:
            async with self._opened().request(
                request.method,
                self._urls[voter].rstrip("/") + PATH,
                data=request.body,
                headers=self._headers_for(request),
                allow_redirects=False,
            ) as response:
                body = await _bounded_body(response, voter)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(f"{voter} cannot be connected to ({type(error).__name__})") from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ReplyLost(f"the answer of {voter} was lost ({type(error).__name__})") from None
        if RELAYED not in response.headers:
            raise _not_relayed(voter, response.status)
        kept = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        return Reply(response.status, body, response.content_type, kept)

    async def close(self) -> None:
        """Drop the connections; answers not yet received are lost. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            hush_aiohttp()
            self._session = aiohttp.ClientSession(
                # A connection for each: a kept one may be closed under a request, which then is neither done nor not.
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _headers_for(self, request: RelayRequest) -> dict[str, str]:
        headers = {
            "Authorization": self._authorization,
            CALLER: request.caller.decode("ascii"),
            TARGET: request.path,
            "Content-Type": request.content_type,
        }
        if request.idempotency_key is not None:
            headers[KEY] = request.idempotency_key
        return headers


def relay_handler_of(relay: Callable[[RelayRequest], Awaitable[Reply]]) -> Callable[[Request], Awaitable[Reply]]:
    """Return the receiving end: the handler of `PATH` over the one handed in from above.

    Args:
        relay: judges the caller's bearer and answers the request here, never relaying it again.
    """

    async def handle(request: Request) -> Reply:
        path = request.headers.get(TARGET.lower(), "")
        if not path.startswith("/") or not path.isascii():
            raise Problem(400, "Bad Request", f"{TARGET} must name a path, such as /v1/runs.", "not_done")
        try:
            reply = await relay(
                RelayRequest(
                    method=request.method,
                    path=path,
                    caller=request.headers.get(CALLER.lower(), "").encode("utf-8", "surrogateescape"),
                    body=request.body,
                    idempotency_key=request.headers.get(KEY.lower()),
                    content_type=request.content_type,
                )
            )
        except Problem as problem:
            reply = Reply(problem.status, problem.body(), CONTENT_TYPE, problem.headers)
        return Reply(reply.status, reply.body, reply.content_type, {**reply.headers, RELAYED: "1"})

    return handle


async def _bounded_body(response: aiohttp.ClientResponse, voter: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise ReplyLost(f"the answer of {voter} is longer than {MAX_REPLY_BYTES} bytes")
    return bytes(body)


def _not_relayed(voter: str, status: int) -> Unreachable | ReplyLost:
    """Return the fault behind an answer that is the listener's own, not that of the handler behind the relay."""
    if status in _REFUSED_BY_LISTENER:
        return Unreachable(
            f"the cluster listener of {voter} refused the relay (HTTP {status}); same cluster credential, too busy?"
        )
    return ReplyLost(f"{voter} failed while it answered (HTTP {status})")
