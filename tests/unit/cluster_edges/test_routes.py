"""What the cluster listener serves, over real sockets, and the relay from both ends."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
import structlog
from aiohttp import web

from cluster.bearer import Bearers, Principal
from cluster.crowd import Crowd, Limits
from cluster.listener import Listener, Reply, bound
from cluster.outcome import NotApplied, Why
from cluster.ports import PeerStatus, Status
from cluster.problem import Problem
from cluster.relay import RelayClient, RelayRequest, ReplyLost, Unreachable
from cluster.routes import cluster_routes
from tests.unit.cluster_edges.raw_http import RawAnswer, request_bytes, send_raw

T = TypeVar("T")

TOKEN = b"cluster-SECRETSECRETSECRET"
OPERATOR = b"operator-SECRETSECRETSECRET"
CALLER = b"Bearer caller-SECRETSECRETSECRET"
STATUS = Status(
    "node1",
    "leader",
    3,
    "node1",
    9,
    8,
    10,
    "ab",
    (PeerStatus("node1", True, 8, "d1", "voter"), PeerStatus("node2", False, 0)),
)
RELAYED = RelayRequest("POST", "/v1/cancel?x=%20y", CALLER, b'{"run": 1}', "key-1")


class FakeNode:
    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE runs (run_id TEXT PRIMARY KEY, digest BLOB) WITHOUT ROWID")
        self.db.executemany("INSERT INTO runs VALUES (?, ?)", [("r1", b"\x01"), ("r2", None), ("r3", b"\xff")])
        self.closed = False

    def status(self) -> Status:
        return STATUS

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        if self.closed:
            raise NotApplied(Why.CLOSED)
        return query(self.db)


class FakeAbove:
    """The handler handed in from above: notes the request, answers as told."""

    def __init__(self) -> None:
        self.requests: list[RelayRequest] = []
        self.answer: Reply | Exception = Reply(200, b"{}")
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()

    async def relay(self, request: RelayRequest) -> Reply:
        self.requests.append(request)
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def accept(self, socket: web.WebSocketResponse, principal: Principal) -> None:
        await socket.send_str(principal.name)


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    made = FakeNode()
    yield made
    made.db.close()


@pytest.fixture
async def above() -> FakeAbove:
    return FakeAbove()


@pytest.fixture
async def listener(node: FakeNode, above: FakeAbove) -> AsyncIterator[Listener]:
    with bound("cluster", "127.0.0.1", 0) as socket:
        made = Listener(
            name="cluster",
            socket=socket,
            bearers=Bearers([(Principal("cluster", "cluster"), TOKEN), (Principal("ann", "operator"), OPERATOR)]),
            routes=cluster_routes(node=node, peers=above, table_names=["runs"], relay=above.relay),
            max_body_bytes=1000,
        )
        yield made
        await made.close()


@pytest.fixture
async def port(listener: Listener) -> int:
    return await listener.start()


@pytest.fixture
async def client(port: int) -> AsyncIterator[RelayClient]:
    made = RelayClient(urls={"node1": f"http://127.0.0.1:{port}"}, token=TOKEN)
    yield made
    await made.close()


async def _get(port: int, path: str, token: bytes = TOKEN) -> RawAnswer:
    return await send_raw(port, request_bytes("GET", path, b"Authorization: Bearer " + token))


async def test_status_is_this_voters_own_view(port: int) -> None:
    answer = await _get(port, "/cluster/status")
    assert json.loads(answer.body) == {
        "name": "node1",
        "role": "leader",
        "term": 3,
        "leader": "node1",
        "commit_index": 9,
        "applied_index": 8,
        "last_index": 10,
        "digest": "ab",
        "voters": [
            {
                "name": "node1",
                "connected": True,
                "applied_index": 8,
                "disk_id": "d1",
                "suffrage": "voter",
                "full": False,
            },
            {"name": "node2", "connected": False, "applied_index": 0, "disk_id": "", "suffrage": "", "full": False},
        ],
        "trouble": None,
        "cluster_version": 1,
    }


@pytest.mark.parametrize("path", ["/cluster/status", "/cluster/data/runs", "/cluster/relay", "/cluster/raft"])
async def test_every_route_is_for_the_cluster_role_only(port: int, path: str) -> None:
    assert (await _get(port, path, OPERATOR)).status == 403
    assert (await _get(port, path, b"wrong-token-0123456")).status == 401


async def test_rows_come_in_pages_with_the_index_they_stand_at(port: int) -> None:
    first = json.loads((await _get(port, "/cluster/data/runs?limit=2")).body)
    assert (first["table"], first["applied_index"], first["columns"]) == ("runs", 8, ["run_id", "digest"])
    assert first["rows"] == [["r1", {"hex": "01"}], ["r2", None]]
    second = json.loads((await _get(port, f"/cluster/data/runs?limit=2&after={first['next']}")).body)
    assert (second["rows"], second["next"]) == ([["r3", {"hex": "ff"}]], None)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=%D9%A1", "after=x"])
async def test_a_wrong_page_is_400(port: int, query: str) -> None:
    assert (await _get(port, f"/cluster/data/runs?{query}")).status == 400


@pytest.mark.parametrize("name", ["nothing", "sqlite_schema", "runs%22%3B--", "meta"])
async def test_only_known_tables_are_read(port: int, name: str) -> None:
    answer = await _get(port, f"/cluster/data/{name}")
    assert (answer.status, json.loads(answer.body)["detail"].rpartition("; ")[2]) == (404, "known: runs.")


async def test_a_voter_that_shuts_down_says_so(port: int, node: FakeNode) -> None:
    node.closed = True
    answer = await _get(port, "/cluster/data/runs")
    assert (answer.status, json.loads(answer.body)["certainty"]) == (503, "not_done")


async def test_a_relayed_request_arrives_whole_and_its_answer_comes_back(client: RelayClient, above: FakeAbove) -> None:
    above.answer = Reply(202, b"\x80", "application/msgpack", {"Fencepost-Stale": "7", "Set-Cookie": "a=b"})
    assert await client.relay("node1", RELAYED) == Reply(202, b"\x80", "application/msgpack", {"Fencepost-Stale": "7"})
    assert above.requests == [RELAYED]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_any_method_is_relayed(client: RelayClient, above: FakeAbove, method: str) -> None:
    await client.relay("node1", RelayRequest(method, "/v1/runs", CALLER))
    assert above.requests == [RelayRequest(method, "/v1/runs", CALLER)]


async def test_a_problem_of_the_far_end_is_its_answer(client: RelayClient, above: FakeAbove) -> None:
    above.answer = Problem(
        401, "Unauthorized", "no", "not_done", headers={"WWW-Authenticate": "Bearer"}, retry_after_s=2
    )
    reply = await client.relay("node1", RELAYED)
    assert (reply.status, json.loads(reply.body)["certainty"]) == (401, "not_done")
    assert (reply.content_type, reply.headers) == (
        "application/problem+json",
        {"Retry-After": "2", "WWW-Authenticate": "Bearer"},
    )


async def test_a_fault_at_the_far_end_leaves_the_outcome_unknown(client: RelayClient, above: FakeAbove) -> None:
    above.answer = KeyError("secret")
    with pytest.raises(ReplyLost, match=r"^node1 failed while it answered \(HTTP 500\)$"):
        await client.relay("node1", RELAYED)


async def test_no_connection_means_not_done(client: RelayClient, listener: Listener, above: FakeAbove) -> None:
    with pytest.raises(Unreachable, match="no address of node9 is configured"):
        await client.relay("node9", RELAYED)
    await listener.close()
    with pytest.raises(Unreachable, match=r"^node1 cannot be connected to \(ClientConnectorError\)$"):
        await client.relay("node1", RELAYED)
    assert not above.requests


async def test_a_refused_cluster_bearer_means_not_done(port: int, above: FakeAbove) -> None:
    client = RelayClient(urls={"node1": f"http://127.0.0.1:{port}"}, token=OPERATOR)
    with pytest.raises(Unreachable, match=r"refused the relay \(HTTP 403\); same cluster credential\?"):
        await client.relay("node1", RELAYED)
    await client.close()
    assert not above.requests


@pytest.mark.parametrize("limits", [Limits(requests=0), Limits(requests_of_one=0)])
async def test_no_room_at_the_listener_means_not_done(
    client: RelayClient, listener: Listener, above: FakeAbove, limits: Limits
) -> None:
    listener._crowd = Crowd(limits)
    with pytest.raises(
        Unreachable, match=r"^the cluster listener of node1 has no room for the relay \(HTTP (429|503)\)$"
    ):
        await client.relay("node1", RELAYED)
    assert not above.requests


async def test_a_body_above_the_limit_means_not_done(client: RelayClient, above: FakeAbove) -> None:
    with pytest.raises(Unreachable, match="HTTP 413"):
        await client.relay("node1", RelayRequest("POST", "/v1/apply", CALLER, b"x" * 1001))
    assert not above.requests


async def test_a_connection_cut_while_it_is_answered_leaves_the_outcome_unknown(
    client: RelayClient, listener: Listener, above: FakeAbove
) -> None:
    above.gate = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        relayed = group.create_task(_fault_of(client.relay("node1", RELAYED)))
        await above.entered.wait()
        await listener.close()
    assert isinstance(relayed.result(), ReplyLost)


async def test_an_answer_that_does_not_come_in_time_leaves_the_outcome_unknown(port: int, above: FakeAbove) -> None:
    above.gate = asyncio.Event()
    client = RelayClient(urls={"node1": f"http://127.0.0.1:{port}"}, token=TOKEN, reply_s=0.2)
    assert isinstance(await _fault_of(client.relay("node1", RELAYED)), ReplyLost)
    await client.close()
    above.gate.set()


async def test_a_post_is_sent_once_when_its_connection_breaks() -> None:
    accepted: list[int] = []

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        accepted.append(1)
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    client = RelayClient(urls={"node1": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}, token=TOKEN)
    assert isinstance(await _fault_of(client.relay("node1", RELAYED)), ReplyLost)
    assert len(accepted) == 1
    await client.close()
    server.close()
    await server.wait_closed()


async def test_a_redirect_is_not_followed_since_the_callers_bearer_would_go_along(port: int, above: FakeAbove) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        location = f"http://127.0.0.1:{port}/cluster/relay"
        writer.write(f"HTTP/1.1 307 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    client = RelayClient(urls={"node1": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}, token=TOKEN)
    assert isinstance(await _fault_of(client.relay("node1", RELAYED)), ReplyLost)
    assert not above.requests
    await client.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("path", [b"", b"v1/runs", b"http://elsewhere/", b"/v1/r\xe9"])
async def test_a_relay_without_a_proper_path_is_400(port: int, above: FakeAbove, path: bytes) -> None:
    headers = [b"Authorization: Bearer " + TOKEN, b"Fencepost-Caller: " + CALLER, b"Fencepost-Path: " + path]
    assert (await send_raw(port, request_bytes("GET", "/cluster/relay", *headers))).status == 400
    assert not above.requests


async def test_a_strange_caller_is_passed_on_as_the_bytes_it_is(port: int, above: FakeAbove) -> None:
    headers = [b"Authorization: Bearer " + TOKEN, b"Fencepost-Path: /v1/runs"]
    await send_raw(port, request_bytes("GET", "/cluster/relay", *headers))
    await send_raw(port, request_bytes("GET", "/cluster/relay", *headers, b"Fencepost-Caller: Bearer \xe9"))
    assert [request.caller for request in above.requests] == [b"", b"Bearer \xe9"]


async def test_neither_bearer_of_a_relay_is_shown_or_logged(client: RelayClient, above: FakeAbove) -> None:
    above.answer = KeyError(CALLER)
    with structlog.testing.capture_logs() as lines:
        fault = await _fault_of(client.relay("node1", RELAYED))
    assert [line["event"] for line in lines] == ["handler failed"]
    assert "SECRET" not in repr((lines, fault, RELAYED, above.requests))


async def _fault_of(relaying: object) -> Exception:
    try:
        await relaying  # type: ignore[misc] - any awaitable
    except (Unreachable, ReplyLost) as fault:
        return fault
    raise AssertionError("it was answered")
