"""The listener over real sockets: who gets in, in which order it refuses, and what it never prints."""

import asyncio
import json
import logging
import socket as sockets
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import structlog
from aiohttp import web

from cluster import guarded_server
from cluster.bearer import Bearers, Principal
from cluster.listener import Listener, Reply, Request, Route, SocketRoute, bound
from cluster.outcome import FailStop, Unfit
from cluster.problem import Problem
from cluster.route_table import ANY_METHOD
from tests.unit.cluster_edges.raw_http import RawAnswer, request_bytes, send_raw

TOKEN = b"tok-SECRETSECRETSECRET"
OTHER = b"tok-OTHEROTHEROTHERXX"
GOOD = b"Authorization: Bearer " + TOKEN
PATHS = ["/echo", "/things/1", "/socket", "/nowhere"]


class House:
    """The handlers of one listener under test."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.entered = asyncio.Event()
        self.released = asyncio.Event()

    async def echo(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(body=request.body, content_type="application/msgpack", headers={"X-Name": request.principal.name})

    async def refuse(self, _request: Request) -> Reply:
        raise Problem(503, "Service Unavailable", "No owner is known; try again.", "not_done", retry_after_s=1)

    async def break_down(self, request: Request) -> Reply:
        raise KeyError(request.headers["authorization"], request.body)

    async def fail_stop(self, _request: Request) -> Reply:
        raise FailStop("disk")

    async def hang(self, _request: Request) -> Reply:
        self.entered.set()
        await self.released.wait()
        return Reply()

    async def socket(self, ws: web.WebSocketResponse, principal: Principal) -> None:
        await ws.send_str(principal.name)
        async for message in ws:
            if message.data == b"break":
                raise KeyError(TOKEN)
            await ws.send_bytes(message.data)


@pytest.fixture
async def house() -> House:
    return House()


@pytest.fixture
def socket() -> Iterator[sockets.socket]:
    with bound("test", "127.0.0.1", 0) as made:
        yield made


@pytest.fixture
async def listener(house: House, socket: sockets.socket) -> AsyncIterator[Listener]:
    roles = frozenset({"operator"})
    made = Listener(
        name="test",
        socket=socket,
        bearers=Bearers([(Principal("ann", "operator"), TOKEN), (Principal("w1", "worker"), OTHER)]),
        routes=[
            Route("POST", "/echo", roles, house.echo),
            Route("GET", "/echo", roles, house.echo),
            Route("GET", "/things/{id}", roles, house.echo),
            Route(ANY_METHOD, "/refuse", roles, house.refuse),
            Route("POST", "/broken", roles, house.break_down),
            Route("GET", "/stop", roles, house.fail_stop),
            Route("GET", "/hang", roles, house.hang),
            SocketRoute("/socket", roles, house.socket, max_message_bytes=1000),
        ],
        max_body_bytes=1000,
    )
    yield made
    await made.close()


@pytest.fixture
async def port(listener: Listener) -> int:
    return await listener.start()


def _assert_unauthorized(answer: RawAnswer) -> None:
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body == UNAUTHORIZED


UNAUTHORIZED = (
    b'{"type":"about:blank","title":"Unauthorized","status":401,"detail":"This listener answers only requests with '
    b'exactly one valid bearer token in Authorization.","certainty":"not_done"}'
)

WRONG = {
    "missing": [],
    "empty": [b"Authorization:"],
    "scheme only": [b"Authorization: Bearer"],
    "wrong": [b"Authorization: Bearer tok-WRONGWRONGWRONG"],
    "other scheme": [b"Authorization: Basic " + TOKEN],
    "doubled": [GOOD, GOOD],
    "doubled, one wrong": [GOOD, b"authorization: Bearer nonsense"],
    "non-ASCII": [b"Authorization: Bearer " + TOKEN + b"\xe9"],
    "NUL": [b"Authorization: Bearer " + TOKEN + b"\x00"],
    "NUL in another header": [GOOD, b"X-Odd: \x00"],
    "header without a colon": [GOOD, b"nonsense"],
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG.keys())
async def test_every_wrong_bearer_gets_the_same_401_on_every_path(port: int, path: str, headers: list[bytes]) -> None:
    _assert_unauthorized(await send_raw(port, request_bytes("GET", path, *headers)))


async def test_a_wrong_bearer_with_a_large_body_is_still_a_readable_401(port: int) -> None:
    _assert_unauthorized(await send_raw(port, request_bytes("POST", "/echo", body=b"x" * 500_000)))


async def test_what_is_not_http_is_answered_like_a_wrong_bearer(port: int) -> None:
    _assert_unauthorized(await send_raw(port, b"\x16\x03\x01\x02\x00nonsense\r\n\r\n"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [9_000, 1 << 20])
async def test_an_oversized_bearer_gets_431_even_while_it_still_sends(port: int, path: str, size: int) -> None:
    header = b"Authorization: Bearer " + TOKEN * (size // len(TOKEN))
    answer = await send_raw(port, request_bytes("GET", path, header))
    assert (answer.status, json.loads(answer.body)["certainty"]) == (431, "not_done")


async def test_the_answer_outlives_a_sender_who_sends_more_than_any_buffer_holds(port: int) -> None:
    answer = await send_raw(port, request_bytes("GET", "/echo", b"Authorization: Bearer " + b"x" * (12 << 20)))
    assert answer.status == 431


async def test_a_sender_without_end_is_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_server, "LINGER_S", 60)
    monkeypatch.setattr(guarded_server, "LINGER_MAX_BYTES", 1 << 20)
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nX: ")
    with pytest.raises(ConnectionError):
        await _send_without_end(writer)
    writer.close()


async def _send_without_end(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(20):
        while True:
            writer.write(b"x" * (1 << 16))
            await writer.drain()


async def test_too_many_headers_get_431(port: int) -> None:
    answer = await send_raw(port, request_bytes("GET", "/echo", GOOD, *[b"X-%d: y" % i for i in range(500)]))
    assert answer.status == 431


async def test_a_request_reaches_its_handler_whole(port: int, house: House) -> None:
    wanted = request_bytes(
        "POST",
        "/echo?limit=5&q=a%20b",
        GOOD,
        b"Content-Type: Application/JSON; charset=utf-8",
        b"X-A: 1",
        b"X-a: 2",
        body=b"{}",
    )
    answer = await send_raw(port, wanted)
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"{}", "application/msgpack")
    assert answer.headers["x-name"] == "ann"
    [request] = house.requests
    assert (request.method, request.path, request.body) == ("POST", "/echo", b"{}")
    assert request.query == {"limit": "5", "q": "a b"}
    assert (request.content_type, request.headers["x-a"]) == ("application/json", "1, 2")
    assert request.headers["authorization"].encode() == b"Bearer " + TOKEN
    assert TOKEN.decode() not in repr(request)


async def test_path_parameters_are_decoded(port: int, house: House) -> None:
    assert (await send_raw(port, request_bytes("GET", "/things/a%2Fb", GOOD))).status == 200
    assert house.requests[0].params == {"id": "a/b"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("PUT", "/echo", 405), ("PUT", "/refuse", 503), ("GET", "/socket", 426)],
)
async def test_refusals_after_the_bearer(port: int, method: str, path: str, status: int) -> None:
    answer = await send_raw(port, request_bytes(method, path, GOOD))
    assert (answer.status, json.loads(answer.body)["certainty"]) == (status, "not_done")


async def test_the_role_is_judged_before_the_body_and_after_the_path(port: int, house: House) -> None:
    worker = b"Authorization: Bearer " + OTHER
    too_large = b"x" * 2000
    assert (await send_raw(port, request_bytes("POST", "/nowhere", worker, body=too_large))).status == 404
    assert (await send_raw(port, request_bytes("POST", "/echo", worker, body=too_large))).status == 403
    assert (await send_raw(port, request_bytes("GET", "/socket", worker))).status == 403
    assert (await send_raw(port, request_bytes("POST", "/echo", GOOD, body=too_large))).status == 413
    assert not house.requests
    refused = json.loads((await send_raw(port, request_bytes("POST", "/echo", worker))).body)
    assert refused["detail"] == "The role 'worker' may not use this path; it needs: operator."


async def test_a_body_of_unstated_length_is_cut_at_the_limit(port: int, house: House) -> None:
    chunks = b"".join(b"64\r\n" + b"x" * 100 + b"\r\n" for _ in range(11)) + b"0\r\n\r\n"
    head = request_bytes("POST", "/echo", GOOD, b"Transfer-Encoding: chunked")
    assert (await send_raw(port, head + chunks)).status == 413
    assert not house.requests


async def test_a_compressed_body_is_not_unpacked(port: int, house: House) -> None:
    await send_raw(port, request_bytes("POST", "/echo", GOOD, b"Content-Encoding: gzip", body=b"\x1f\x8b"))
    assert house.requests[0].body == b"\x1f\x8b"


async def test_a_wrongly_framed_body_never_reaches_the_handler(port: int, house: House) -> None:
    head = request_bytes("POST", "/echo", GOOD, b"Transfer-Encoding: chunked")
    answer = await send_raw(port, head + b"zz\r\nnonsense")
    assert answer.status in {400, 401}
    assert not house.requests


async def test_a_doubled_query_parameter_is_refused(port: int) -> None:
    answer = await send_raw(port, request_bytes("GET", "/echo?limit=1&limit=2", GOOD))
    assert (answer.status, json.loads(answer.body)["detail"]) == (400, "The query parameter 'limit' is given twice.")


async def test_a_problem_says_when_to_come_back(port: int) -> None:
    answer = await send_raw(port, request_bytes("GET", "/refuse", GOOD))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_a_broken_handler_is_500_unknown_without_a_trace(port: int) -> None:
    answer = await send_raw(port, request_bytes("POST", "/broken", GOOD, body=b"body-SECRET"))
    assert (answer.status, json.loads(answer.body)["certainty"]) == (500, "unknown")
    assert b"KeyError" not in answer.body
    assert b"SECRET" not in answer.body


async def test_fail_stop_escapes_and_answers_nothing(listener: Listener, port: int) -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        await send_raw(port, request_bytes("GET", "/stop", GOOD))
    with pytest.raises(FailStop, match="disk"):
        await listener.watch()


async def test_nothing_of_a_token_is_logged(
    port: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as lines:
        for headers in WRONG.values():
            await send_raw(port, request_bytes("GET", "/echo", *headers))
        await send_raw(port, request_bytes("GET", "/echo", b"Authorization: Bearer " + TOKEN * 1000))
        await send_raw(port, request_bytes("POST", "/broken", GOOD, body=b"body-SECRET"))
        await send_raw(
            port, request_bytes("GET", "/echo", GOOD, b"Sec-WebSocket-Protocol: " + TOKEN, b"Upgrade: websocket")
        )
    output = capfd.readouterr()
    everything = repr((lines, caplog.records, [record.getMessage() for record in caplog.records], output))
    assert {line["event"] for line in lines} >= {"handler failed", "request refused unread"}
    assert "SECRET" not in everything
    assert "test_listener.py" in everything


async def test_aiohttps_own_loggers_say_nothing_of_what_they_quote(port: int, caplog: pytest.LogCaptureFixture) -> None:
    assert port
    with structlog.testing.capture_logs() as lines:
        for name in ["server", "web", "access", "websocket", "client", "internal"]:
            logging.getLogger(f"aiohttp.{name}").error("Error: %s", TOKEN, exc_info=(KeyError, KeyError(TOKEN), None))
    assert not caplog.records
    assert [line["error"] for line in lines] == ["KeyError"] * 6
    assert "SECRET" not in repr(lines)


async def test_a_socket_speaks_until_its_handler_returns(port: int) -> None:
    headers = {"Authorization": f"Bearer {TOKEN.decode()}"}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/socket", headers=headers) as ws,
    ):
        assert (await ws.receive()).data == "ann"
        await ws.send_bytes(b"x" * 999)
        assert (await ws.receive()).data == b"x" * 999
        await ws.send_bytes(b"x" * 1000)
        assert (await ws.receive()).type is aiohttp.WSMsgType.CLOSE
        assert ws.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


async def test_a_broken_socket_handler_just_ends_the_socket(port: int) -> None:
    headers = {"Authorization": f"Bearer {TOKEN.decode()}"}
    with structlog.testing.capture_logs() as lines:
        async with aiohttp.ClientSession() as session:
            ws = await session.ws_connect(f"http://127.0.0.1:{port}/socket", headers=headers)
            assert (await ws.receive()).data == "ann"
            await ws.send_bytes(b"break")
            assert (await ws.receive()).type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE}
            await ws.close()
    assert [line["event"] for line in lines] == ["handler failed"]
    assert "SECRET" not in repr(lines)


def test_a_port_in_use_is_one_clear_line_even_before_it_is_served(socket: sockets.socket) -> None:
    port = socket.getsockname()[1]
    refusal = rf"^cluster listener: 127\.0\.0\.1:{port} is in use; .*\[listen\]$"
    with pytest.raises(Unfit, match=refusal), bound("cluster", "127.0.0.1", port):
        raise AssertionError("bound twice")


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_of_another_host_is_one_clear_line(host: str) -> None:
    refusal = rf"^cluster listener: cannot listen on {host}:0 \(.+\); correct the address under \[listen\]$"
    with pytest.raises(Unfit, match=refusal), bound("cluster", host, 0):
        raise AssertionError("bound elsewhere")


def test_an_address_that_is_given_up_is_free_again() -> None:
    with bound("cluster", "127.0.0.1", 0) as first:
        port = first.getsockname()[1]
    with bound("cluster", "127.0.0.1", port) as second:
        assert second.getsockname()[1] == port


async def test_close_ends_idle_connections_and_open_requests(listener: Listener, port: int, house: House) -> None:
    _reader, idle = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.TaskGroup() as group:
        hanging = group.create_task(_expect_the_end(port))
        await house.entered.wait()
        async with asyncio.timeout(10):
            await listener.close()
        assert await hanging == b""
    assert await _reader.read() == b""
    idle.close()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)
    await listener.close()


async def test_close_lets_a_request_that_is_nearly_done_finish(listener: Listener, port: int, house: House) -> None:
    async with asyncio.TaskGroup() as group:
        answer = group.create_task(send_raw(port, request_bytes("GET", "/hang", GOOD)))
        await house.entered.wait()
        house.released.set()
        await listener.close()
    assert answer.result().status == 200


async def _expect_the_end(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("GET", "/hang", GOOD))
    received = await reader.read()
    writer.close()
    return received
