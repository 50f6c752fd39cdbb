"""Raft links over real sockets: greeting, refusing, replacing, overflowing, ending."""

import asyncio
import contextlib
import socket as socket_module
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest
import structlog

from cluster import frames
from cluster.websocket import MAX_MESSAGE_BYTES, PATH
from tests.unit.cluster_edges.fake_voter import RETIRED, TOKEN, FakeVoter, hello_of, identity, quick, serving, until


def _altered(hello: frames.Hello, **changes: object) -> bytes:
    fields = {name: getattr(hello, name) for name in hello.__struct_fields__}
    return frames.encode_hello(frames.Hello(**{**fields, **changes}))


@asynccontextmanager
async def _dialled(url: str, **settings: object) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Dial as raw bytes, so that the test decides what is said."""
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN.decode()}"}) as session,
        session.ws_connect(url + PATH, max_msg_size=0, **settings) as socket,  # type: ignore[arg-type] - passed on
    ):
        yield socket


async def _greet(socket: aiohttp.ClientWebSocketResponse, name: str, nonce: bytes = bytes(16)) -> frames.Hello:
    await socket.send_bytes(frames.encode_hello(hello_of(name, nonce)))
    return frames.decode_hello(await socket.receive_bytes())


async def _farewell(socket: aiohttp.ClientWebSocketResponse) -> str:
    """Return the reason in the last frame, and see the socket closed with the same."""
    message = frames.decode_frame(await socket.receive_bytes()).message
    assert isinstance(message, frames.Goodbye)
    close = await socket.receive()
    assert (close.type, close.data, close.extra) == (aiohttp.WSMsgType.CLOSE, 4000, message.why[:120])
    return message.why


async def test_two_voters_link_once_and_speak_both_ways_in_order() -> None:
    one, two = FakeVoter("node1"), FakeVoter("node2")
    async with serving(one) as url, serving(two, urls={"node1": url, "node2": "http://127.0.0.1:1"}):
        session = await one.seen("connected")
        assert await two.seen("connected") == session
        assert len(session) == 32
        wanted = [b"%d" % number for number in range(500)]
        for frame in wanted:
            one.links[0].send(frame)
            two.links[0].send(frame)
        assert [await one.seen("received") for _ in wanted] == wanted
        assert [await two.seen("received") for _ in wanted] == wanted
        assert (one.links[0].peer, two.links[0].peer) == ("node2", "node1")
        assert one.notes.empty()
        assert two.notes.empty()


async def test_an_ended_link_is_dialled_again_with_a_new_session() -> None:
    one, two = FakeVoter("node1"), FakeVoter("node2")
    async with serving(one) as url, serving(two, urls={"node1": url}):
        first = await one.seen("connected")
        assert await two.seen("connected") == first
        one.links[0].close("a frame was malformed")
        farewell = frames.decode_frame(await two.seen("received"))
        assert farewell == frames.Frame(first.decode(), 0, 0, 1, frames.Goodbye("a frame was malformed"))
        assert await one.seen("disconnected") == first
        assert await two.seen("disconnected") == first
        second = await one.seen("connected")
        assert await two.seen("connected") == second
        assert second != first


async def test_a_listener_that_comes_late_or_comes_back_is_found() -> None:
    two = FakeVoter("node2")
    async with serving(FakeVoter("node1")) as url:
        pass
    port = url.rpartition(":")[2]
    with structlog.testing.capture_logs() as lines:
        async with serving(two, urls={"node1": url}):
            await until(lambda: lines)
            server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", int(port))
            await until(lambda: len(lines) > 1)
            server.close()
            await server.wait_closed()
    assert [line["why"] for line in lines][:2] == [
        "cannot connect (ClientConnectorError)",
        "cannot connect (ServerDisconnectedError)",
    ]


STRANGE = {
    "stranger": (
        _altered(hello_of("node2"), name="node9"),
        "node9 is a stranger: no member of this cluster has that name",
    ),
    "itself": (frames.encode_hello(hello_of("node1")), "it calls itself node1, which is this voter's own name"),
    "other cluster": (_altered(hello_of("node2"), cluster_id="d" * 36), f"it belongs to cluster {'d' * 36}, "),
    "other generation": (_altered(hello_of("node2"), generation=2), "it is of restore generation 2, this voter of 1"),
    "replaced disk": (_altered(hello_of("node2"), disk_id=RETIRED), "this disk was replaced"),
    "other version": (
        _altered(hello_of("node2"), version=99),
        f"it speaks protocol version 99, this voter speaks {frames.PROTOCOL_VERSION}",
    ),
    "no hello": (b"\xc1nonsense", "not a hello of this protocol"),
    "too long": (b"x" * 5000, "a hello of 5000 bytes; at most 4096 are read"),
}


@pytest.mark.parametrize(("hello", "why"), STRANGE.values(), ids=STRANGE.keys())
async def test_a_wrong_hello_gets_a_goodbye_and_no_link(hello: bytes, why: str) -> None:
    one = FakeVoter("node1")
    with structlog.testing.capture_logs() as lines:
        async with serving(one, urls={"node2": "http://127.0.0.1:1"}) as url, _dialled(url) as socket:
            await socket.send_bytes(hello)
            said = await _farewell(socket)
    assert said.startswith(why)
    assert [(line["event"], line["why"]) for line in lines] == [("no link", f"refused: {said}")]
    assert one.notes.empty()


async def test_the_wrong_one_of_a_pair_must_not_dial() -> None:
    two = FakeVoter("node2")
    async with serving(two) as url, _dialled(url) as socket:
        await socket.send_bytes(frames.encode_hello(hello_of("node1")))
        assert await _farewell(socket) == "node1 must wait to be dialled by node2, whose name sorts later"
    assert two.notes.empty()


async def test_text_and_silence_are_no_hello() -> None:
    one = FakeVoter("node1")
    with structlog.testing.capture_logs() as lines:
        async with serving(one, timing=quick(handshake_s=0.05)) as url:
            async with _dialled(url) as socket:
                await socket.send_str("hello")
                assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
            async with _dialled(url) as socket:
                assert await _farewell(socket) == "no hello came"
            async with _dialled(url) as socket:
                await socket.close()
    assert [line["why"] for line in lines] == [
        "it refused: the peer sent text where only frames are spoken",
        "refused: no hello came",
        "it refused: the peer closed: code 1000",
    ]
    assert one.notes.empty()


async def test_a_dialler_that_is_refused_keeps_asking_and_logs_the_reason_once() -> None:
    one, two = FakeVoter("node1"), FakeVoter("node2")
    two.hello_as = hello_of("node3")
    one.identity = replace(identity("node1"), members={"node1": "1" * 32, "node2": "2" * 32})
    with structlog.testing.capture_logs() as lines:
        async with serving(one, urls={"node2": "http://127.0.0.1:1"}) as url, serving(two, urls={"node1": url}):
            await until(lambda: two.hellos > 3)
            one.identity = identity("node1")
            await two.seen("connected")
    reasons = [(line["peer"], line["why"]) for line in lines if line["event"] == "no link"]
    why = "node3 is a stranger: no member of this cluster has that name"
    assert sorted(reasons) == [("?", f"refused: {why}"), ("node1", f"it refused: {why}")]


async def test_another_voter_at_the_address_is_refused_by_the_dialler() -> None:
    two, three = FakeVoter("node2"), FakeVoter("node3")
    with structlog.testing.capture_logs() as lines:
        async with serving(two) as url, serving(three, urls={"node1": url}):
            await two.seen("connected")
            farewell = frames.decode_frame(await two.seen("received")).message
            await two.seen("disconnected")
    assert farewell == frames.Goodbye("node2 answers at the address of node1")
    assert three.notes.empty()
    assert [(line["peer"], line["why"]) for line in lines if line["event"] == "no link"] == [
        ("node1", "refused: node2 answers at the address of node1")
    ]


async def test_a_wrong_cluster_bearer_is_named_as_such_and_not_shown() -> None:
    two = FakeVoter("node2")
    with structlog.testing.capture_logs() as lines:
        async with serving(FakeVoter("node1")) as url, serving(two, urls={"node1": url}, token=b"other-SECRETSECRET"):
            await until(lambda: lines)
    assert lines[0]["why"] == "its listener answered HTTP 401; is it the same cluster credential?"
    assert "SECRET" not in repr(lines)
    assert two.notes.empty()


async def test_a_newer_connection_of_a_peer_takes_the_place_of_the_older() -> None:
    one = FakeVoter("node1")
    async with serving(one) as url, _dialled(url) as older, _dialled(url) as newer:
        own = await _greet(older, "node2", b"a" * 16)
        first = await one.seen("connected")
        assert first.decode() == frames.session_of(b"a" * 16, own.nonce)
        await _greet(newer, "node2", b"b" * 16)
        assert await one.seen("disconnected") == first
        second = await one.seen("connected")
        await older.send_bytes(b"from the older one")
        assert await _farewell(older) == "a newer connection took its place"
        await newer.send_bytes(b"from the newer one")
        assert await one.seen("received") == b"from the newer one"
        await newer.close()
        assert await one.seen("disconnected") == second
    assert one.notes.empty()


async def test_overflow_ends_the_link_with_a_goodbye_and_never_drops_a_frame_between_others() -> None:
    one = FakeVoter("node1")
    async with serving(one, timing=quick(queue_bytes=1000)) as url, _dialled(url) as socket:
        await _greet(socket, "node2")
        await one.seen("connected")
        link = one.links[0]
        link.send(b"x" * 1000)
        assert await socket.receive_bytes() == b"x" * 1000
        for _ in range(4):
            link.send(b"y" * 300)
        link.send(b"z")
        assert await _farewell(socket) == "overflow: more than 1000 bytes wait to be sent"
        await one.seen("disconnected")
        link.send(b"after the end")
        link.close("again")
    assert one.notes.empty()


async def test_a_peer_that_stops_reading_overflows_and_is_let_go() -> None:
    one = FakeVoter("node1")
    async with serving(one, timing=quick(queue_bytes=1 << 20)) as url, _dialled(url) as socket:
        await _greet(socket, "node2")
        await one.seen("connected")
        async with asyncio.timeout(30):
            while one.notes.empty():
                one.links[0].send(bytes(1 << 16))
                await asyncio.sleep(0)
        await one.seen("disconnected")


async def test_a_connection_that_is_reset_under_a_full_pipe_is_let_go() -> None:
    one = FakeVoter("node1")
    async with serving(one, timing=quick(queue_bytes=64 << 20)) as url:
        async with _dialled(url) as socket:
            await _greet(socket, "node2")
            await one.seen("connected")
            for _ in range(400):
                one.links[0].send(bytes(1 << 16))
            await socket.receive_bytes()
            raw = socket.get_extra_info("socket")
            raw.setsockopt(socket_module.SOL_SOCKET, socket_module.SO_LINGER, struct.pack("ii", 1, 0))
        await one.seen("disconnected")


async def test_a_dialled_connection_that_is_reset_under_a_full_pipe_is_dialled_again() -> None:
    two = FakeVoter("node2")
    mute = await _mute_listener()
    async with serving(two, urls={"node1": mute.url}, timing=quick(queue_bytes=64 << 20)):
        await two.seen("connected")
        for _ in range(400):
            two.links[0].send(bytes(1 << 16))
        await mute.reset()
        await two.seen("disconnected")
        await two.seen("connected")
        await mute.close()


async def test_frames_up_to_the_limit_pass_and_longer_ones_end_the_link() -> None:
    one = FakeVoter("node1")
    with structlog.testing.capture_logs() as lines:
        async with serving(one) as url, _dialled(url) as socket:
            await _greet(socket, "node2")
            await one.seen("connected")
            await socket.send_bytes(bytes(frames.MAX_FRAME_BYTES))
            assert await one.seen("received") == bytes(frames.MAX_FRAME_BYTES)
            with contextlib.suppress(OSError):  # the head of the frame tells its length: it may be cut off at once
                await socket.send_bytes(bytes(MAX_MESSAGE_BYTES))
            await one.seen("disconnected")
    assert lines[-1]["why"] == "the peer broke the protocol of the socket (code 1009)"


async def test_a_listener_notices_a_peer_that_is_dead() -> None:
    one = FakeVoter("node1")
    async with serving(one, timing=quick(heartbeat_s=0.1)) as url, _dialled(url, autoping=False) as socket:
        await _greet(socket, "node2")
        await one.seen("connected")
        await one.seen("disconnected")


async def test_a_dialler_notices_a_peer_that_is_dead() -> None:
    two = FakeVoter("node2")
    mute = await _mute_listener()
    async with serving(two, urls={"node1": mute.url}, timing=quick(heartbeat_s=0.1)):
        await two.seen("connected")
        await two.seen("disconnected")
    await mute.close()


class _Mute:
    """A listener that greets as node1 and then never reads again."""

    def __init__(
        self,
        url: str,
        runner: aiohttp.web.ServerRunner,
        greeted: asyncio.Queue[aiohttp.web.WebSocketResponse],
        released: asyncio.Event,
    ) -> None:
        self.url = url
        self.greeted = greeted
        self._runner = runner
        self._released = released

    async def reset(self) -> None:
        """Reset the connection once what it was sent no longer fits: its receiver is paused by then."""
        socket = await self.greeted.get()
        raw = socket.get_extra_info("socket")
        raw.setsockopt(socket_module.SOL_SOCKET, socket_module.SO_LINGER, struct.pack("ii", 1, 0))
        assert socket._req is not None
        assert socket._req.transport is not None
        socket._req.transport.abort()

    async def close(self) -> None:
        self._released.set()
        await self._runner.cleanup()


async def _mute_listener() -> _Mute:
    released = asyncio.Event()
    greeted: asyncio.Queue[aiohttp.web.WebSocketResponse] = asyncio.Queue()

    async def handle(request: aiohttp.web.BaseRequest) -> aiohttp.web.WebSocketResponse:
        socket = aiohttp.web.WebSocketResponse(timeout=0.1)
        await socket.prepare(request)
        await socket.receive()
        await socket.send_bytes(frames.encode_hello(hello_of("node1")))
        greeted.put_nowait(socket)
        await released.wait()
        return socket

    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(handle))
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return _Mute(f"http://127.0.0.1:{runner.addresses[0][1]}", runner, greeted, released)


async def test_the_end_of_the_peers_ends_every_link_at_both_ends() -> None:
    one, two = FakeVoter("node1"), FakeVoter("node2")
    async with contextlib.AsyncExitStack() as dialled, asyncio.TaskGroup() as group:
        async with serving(one) as url:
            socket = await dialled.enter_async_context(_dialled(url))
            await _greet(socket, "node3")
            await one.seen("connected")
            farewell = group.create_task(_farewell(socket))
        await one.seen("disconnected")
    assert farewell.result() == "this voter is shutting down"
    async with serving(FakeVoter("node1")) as url:
        async with serving(two, urls={"node1": url}):
            await two.seen("connected")
        await two.seen("disconnected")


async def test_nothing_is_delivered_after_the_voter_has_ended_a_link() -> None:
    one = FakeVoter("node1")
    one.ends_at = b"bad"
    async with serving(one) as url, _dialled(url) as socket:
        await _greet(socket, "node2")
        await one.seen("connected")
        for frame in [b"good", b"bad", *[b"late"] * 500]:
            await socket.send_bytes(frame)
        assert [await one.seen("received") for _ in range(2)] == [b"good", b"bad"]
        await one.seen("disconnected")
    assert one.notes.empty()


async def test_the_time_to_greet_does_not_limit_the_link() -> None:
    one, two = FakeVoter("node1"), FakeVoter("node2")
    clock = asyncio.get_running_loop().time
    async with serving(one) as url, serving(two, urls={"node1": url}, timing=quick(handshake_s=0.2)):
        await two.seen("connected")
        await one.seen("connected")
        later_s = clock() + 0.4
        while clock() < later_s:
            one.links[0].send(b"frame")
            assert await two.seen("received") == b"frame"
    assert len(two.links) == 1


async def test_no_link_is_taken_while_the_peers_do_not_run() -> None:
    one = FakeVoter("node1")
    async with serving(one, running=False) as url, _dialled(url) as socket:
        await socket.send_bytes(frames.encode_hello(hello_of("node2")))
        assert await _farewell(socket) == "node1 is not taking links now"
    assert one.notes.empty()
