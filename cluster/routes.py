"""What a voter's cluster listener serves, to the cluster role only."""

import sqlite3
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol, TypeVar

import msgspec
from aiohttp import web

from cluster import websocket
from cluster.bearer import Principal
from cluster.listener import Reply, Request, Route, SocketRoute
from cluster.outcome import NotApplied, OutcomeUnknown
from cluster.ports import Status
from cluster.problem import Problem
from cluster.relay import PATH as RELAY_PATH
from cluster.relay import RelayRequest, relay_handler_of
from cluster.route_table import ANY_METHOD
from cluster.table_page import MAX_ROWS, BadCursor, Page, Value, read_page

DEFAULT_ROWS: Final = 100
ROLES: Final = frozenset({"cluster"})

T = TypeVar("T")


class Readable(Protocol):
    """What these routes need of the voter; `cluster.node.Node` is one."""

    def status(self) -> Status:
        """Return this voter's own view."""
        ...

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query between two commands; answer once what it saw is committed here."""
        ...


class Accepts(Protocol):
    """What takes the links that peers dial; `cluster.websocket.Peers` is one."""

    async def accept(self, socket: web.WebSocketResponse, principal: Principal) -> None:
        """Serve one connection until it ends."""
        ...


def cluster_routes(
    *,
    node: Readable,
    peers: Accepts,
    table_names: Collection[str],
    relay: Callable[[RelayRequest], Awaitable[Reply]],
) -> list[Route | SocketRoute]:
    """Return the routes of a cluster listener.

    Args:
        node: the voter to show.
        peers: takes the Raft links.
        table_names: tables of the checkpoint that may be read.
        relay: answers a relayed request here, after it has judged the caller's own bearer.
    """

    async def status(_request: Request) -> Reply:
        return Reply(body=msgspec.json.encode(node.status()))

    async def table(request: Request) -> Reply:
        return await _table(node, table_names, request)

    return [
        SocketRoute(websocket.PATH, ROLES, peers.accept, max_message_bytes=websocket.MAX_MESSAGE_BYTES),
        Route("GET", "/cluster/status", ROLES, status),
        Route("GET", "/cluster/data/{table}", ROLES, table),
        Route(ANY_METHOD, RELAY_PATH, ROLES, relay_handler_of(relay)),
    ]


async def _table(node: Readable, table_names: Collection[str], request: Request) -> Reply:
    name = request.params["table"]
    if name not in table_names:
        raise Problem(
            404, "Not Found", f"There is no table {name!r}; known: {', '.join(sorted(table_names))}.", "not_done"
        )
    limit = _limit(request)

    def query(db: sqlite3.Connection) -> tuple[int, Page]:
        # Both in one turn of the voter's loop: the index is the one that these rows stand at.
        return node.status().applied_index, read_page(db, name, after=request.query.get("after"), limit=limit)

    try:
        applied_index, page = await node.read(query)
    except BadCursor as fault:
        raise Problem(400, "Bad Request", f"`after` is {fault}; take it from `next` of a page.", "not_done") from None
    except (NotApplied, OutcomeUnknown):
        raise Problem(503, "Service Unavailable", "This voter is shutting down; ask another.", "not_done") from None
    return Reply(
        body=msgspec.json.encode(
            {
                "table": name,
                "applied_index": applied_index,
                "columns": page.columns,
                "rows": [[_json_value(value) for value in row] for row in page.rows],
                "next": page.next,
            }
        )
    )


def _limit(request: Request) -> int:
    text = request.query.get("limit", str(DEFAULT_ROWS))
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ROWS)) and 1 <= int(text) <= MAX_ROWS):
        raise Problem(400, "Bad Request", f"`limit` must be a number from 1 to {MAX_ROWS}.", "not_done")
    return int(text)


def _json_value(value: Value) -> int | str | float | dict[str, str] | None:
    return {"hex": value.hex()} if isinstance(value, bytes) else value
