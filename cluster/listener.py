"""The HTTP adapter of the cluster, admission and management listeners: plain handlers behind a bearer.

The order is fixed for every request: bearer (401), path and method (404, 405), role (403), room for one more (429, 503),
body size (413), handler.
"""

import asyncio
import errno
import socket as sockets
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NoReturn

import structlog
from aiohttp import web

from cluster.bearer import Bearers, Principal
from cluster.crowd import DEFAULT_LIMITS, Crowd, Limits
from cluster.guarded_server import GuardedServer
from cluster.outcome import FailStop, Unfit
from cluster.problem import CONTENT_TYPE, Problem, unauthorized
from cluster.request_parts import body_of, headers_of, query_of
from cluster.route_table import RouteTable

CLOSE_GRACE_S: Final = 0.5

_log = structlog.get_logger("cluster.listener")


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a known principal; headers and body stay out of its repr, since they may hold secrets.

    Attributes:
        path: decoded path.
        params: path parameters by name, decoded.
        query: query parameters, each at most once.
        headers: by lower-case name; repeated ones joined by a comma.
        content_type: media type in lower case without its parameters, "" if none was given.
        target: path and query exactly as sent, for a relay.
    """

    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    content_type: str
    principal: Principal
    target: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler answers."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """A method (or `route_table.ANY_METHOD`) and a path such as `/v1/runs/{id}`, open to the roles named."""

    method: str
    path: str
    roles: frozenset[str]
    handler: Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class SocketRoute:
    """A path that becomes a WebSocket, open to the roles named.

    Attributes:
        handler: owns the socket until it returns; the socket is closed then.
        max_message_bytes: a longer message ends the socket with code 1009.
        heartbeat_s: a peer that is silent this long is pinged, and given up half that time later.
    """

    path: str
    roles: frozenset[str]
    handler: Callable[[web.WebSocketResponse, Principal], Awaitable[None]]
    max_message_bytes: int = 4 << 20
    heartbeat_s: float = 2.0


def forbidden(role: str, roles: Collection[str]) -> Problem:
    """Return the answer to a known principal whose role may not use a path."""
    may = " or ".join(sorted(roles))
    return Problem(403, "Forbidden", f"The role {role!r} may not use this path; it needs: {may}.", "not_done")


@contextmanager
def bound(name: str, host: str, port: int) -> Iterator[sockets.socket]:
    """Claim a listening address before anything else is opened: no other process can have it from here on.

    Args:
        name: what errors call this listener.
        host: address to bind.
        port: port to bind, 0 for any free one.

    Raises:
        Unfit: the address cannot be bound; the text says which and what to do.
    """
    try:
        family, _, _, _, address = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)[0]
        # Listening at once: two sockets may be bound to one port as long as neither listens.
        socket = sockets.create_server(address, family=family)
    except OSError as error:
        raise Unfit(_bind_fault(name, host, port, error)) from None
    with socket:
        yield socket


class Listener:
    """One listening address, its credentials and its routes."""

    def __init__(
        self,
        *,
        name: str,
        socket: sockets.socket,
        bearers: Bearers,
        routes: Sequence[Route | SocketRoute],
        max_body_bytes: int,
        max_header_bytes: int = 8190,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Keep what to serve; nothing is answered before `start`.

        Args:
            name: what logs and errors call this listener.
            socket: where to listen, from `bound`; closed by `close`.
            max_body_bytes: a longer body is answered 413.
            max_header_bytes: a longer request line or header field is answered 431.
            limits: how much it takes on at once.
        """
        self._name = name
        self._socket = socket
        self._bearers = bearers
        self._max_body_bytes = max_body_bytes
        self._max_header_bytes = max_header_bytes
        self._limits = limits
        self._crowd = Crowd(limits)
        self._table = RouteTable(
            (route.method if isinstance(route, Route) else "GET", route.path, route) for route in routes
        )
        self._http: GuardedServer | None = None
        self._server: asyncio.Server | None = None
        self._stop: FailStop | None = None
        self._stopped = asyncio.Event()

    async def start(self) -> int:
        """Serve; returns the port. Who connected since `bound` has waited until now."""
        http = GuardedServer(
            self._answer,
            fail_stop=self._fail_stop,
            max_header_bytes=self._max_header_bytes,
            max_connections=self._limits.connections,
        )
        server = await asyncio.get_running_loop().create_server(http, sock=self._socket)
        self._http, self._server = http, server
        port: int = self._socket.getsockname()[1]
        return port

    async def watch(self) -> NoReturn:
        """Block until a handler meets FailStop, and raise it: the task that ends the process waits here.

        Raises:
            FailStop: what the handler met; its caller got no answer.
        """
        await self._stopped.wait()
        assert self._stop is not None
        raise self._stop

    async def close(self) -> None:
        """Stop accepting and end what is open, unanswered requests after a short grace. Idempotent.

        Blocks for at most about twice `CLOSE_GRACE_S`; a handler still at work is then cancelled.
        """
        server, http = self._server, self._http
        self._server = self._http = None
        if server is None or http is None:
            return
        server.close()
        http.pre_shutdown()
        await http.shutdown(CLOSE_GRACE_S)
        await server.wait_closed()

    def _fail_stop(self, stop: FailStop) -> None:
        self._stop = self._stop or stop
        self._stopped.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever becomes of its handler: the HTTP middleware."""
        try:
            return await self._serve(request)
        except Problem as problem:
            answer = problem
        except Exception as error:  # noqa: BLE001 - the one middleware: a fault in a handler must not end the listener
            _log.error("handler failed", listener=self._name, error=type(error).__name__, where=_where(error))
            answer = Problem(
                500, "Internal Server Error", "The request failed inside; see this voter's log.", "unknown"
            )
        if request.writer.output_size > 0:
            raise ConnectionAbortedError("a socket cannot be answered once it is one")
        return _problem_response(answer)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        principal = self._bearers.judge([v for name, v in request.raw_headers if name.lower() == b"authorization"])
        if principal is None:
            raise unauthorized()
        route, params = self._table.find(request.method, request.rel_url.raw_path)
        if principal.role not in route.roles:
            raise forbidden(principal.role, route.roles)
        if isinstance(route, SocketRoute):
            return await _serve_socket(request, route, principal)
        with self._crowd.admitted(principal.name):
            reply = await route.handler(await self._read(request, params, principal))
        return web.Response(
            status=reply.status, body=reply.body, headers={**reply.headers, "Content-Type": reply.content_type}
        )

    async def _read(self, request: web.BaseRequest, params: Mapping[str, str], principal: Principal) -> Request:
        return Request(
            method=request.method,
            path=request.path,
            params=params,
            query=query_of(request),
            headers=headers_of(request),
            body=await body_of(request, self._max_body_bytes),
            content_type=request.headers.get("Content-Type", "").partition(";")[0].strip().lower(),
            principal=principal,
            target=request.rel_url.raw_path_qs,
        )


async def _serve_socket(request: web.BaseRequest, route: SocketRoute, principal: Principal) -> web.StreamResponse:
    socket = web.WebSocketResponse(
        timeout=CLOSE_GRACE_S,
        heartbeat=route.heartbeat_s,
        compress=False,
        max_msg_size=route.max_message_bytes,
    )
    if not socket.can_prepare(request):
        raise Problem(
            426, "Upgrade Required", "This path speaks WebSocket only.", "not_done", headers={"Upgrade": "websocket"}
        )
    await socket.prepare(request)
    await route.handler(socket, principal)
    return socket


def _where(error: Exception) -> list[str]:
    """Return where an error was raised, without its text, which may quote a header or a body."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def _problem_response(problem: Problem) -> web.Response:
    return web.Response(
        status=problem.status, body=problem.body(), headers={**problem.headers, "Content-Type": CONTENT_TYPE}
    )


def _bind_fault(name: str, host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{name} listener: {host}:{port} is in use; stop the other process or choose another port under [listen]"
    reason = error.strerror or type(error).__name__
    return f"{name} listener: cannot listen on {host}:{port} ({reason}); correct the address under [listen]"
