"""A voter that only notes what its links tell it, and the listener and peers of one."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from cluster import frames
from cluster.bearer import Bearers, Principal
from cluster.listener import Listener, SocketRoute, bound
from cluster.ports import Identity, Link
from cluster.websocket import MAX_MESSAGE_BYTES, PATH, LinkTiming, Peers

TOKEN = b"cluster-SECRETSECRETSECRET"
MEMBERS = {"node1": "1" * 32, "node2": "2" * 32, "node3": "3" * 32}
QUICK = LinkTiming(redial_min_s=0.01, redial_max_s=0.02)


def identity(name: str) -> Identity:
    return Identity("c" * 36, 1, name, MEMBERS[name], MEMBERS)


def hello_of(name: str, nonce: bytes = bytes(16)) -> frames.Hello:
    own = identity(name)
    return frames.Hello(frames.PROTOCOL_VERSION, own.cluster_id, own.generation, name, own.disk_id, 3, 7, nonce)


RETIRED = "9" * 32


class FakeVoter:
    """Notes (what, peer, session) and, for received ones, the frame; `seen` waits for the next note."""

    def __init__(self, name: str) -> None:
        self.identity = identity(name)
        self.hello_as = hello_of(name)
        self.notes: asyncio.Queue[tuple[str, str, bytes]] = asyncio.Queue()
        self.refusals: asyncio.Queue[str] = asyncio.Queue()
        self.links: list[Link] = []
        self.hellos = 0
        self.ends_at = b""

    def hello(self, nonce: bytes) -> bytes:
        self.hellos += 1
        return frames.encode_hello(replace_nonce(self.hello_as, nonce))

    def objection(self, hello: frames.Hello) -> str | None:
        return "this disk was replaced" if hello.disk_id == RETIRED else frames.check_hello(self.identity, hello)

    def connected(self, link: Link) -> None:
        self.links.append(link)
        self.notes.put_nowait(("connected", link.peer, link.session.encode()))

    def received(self, link: Link, frame: bytes) -> None:
        self.notes.put_nowait(("received", link.peer, frame))
        if frame == self.ends_at:
            link.close("what came was wrong")

    def disconnected(self, link: Link) -> None:
        self.notes.put_nowait(("disconnected", link.peer, link.session.encode()))

    def refused(self, peer: str) -> None:
        self.refusals.put_nowait(peer)

    async def seen(self, what: str) -> bytes:
        async with asyncio.timeout(20):
            note = await self.notes.get()
        assert note[0] == what, note
        return note[2]


def replace_nonce(hello: frames.Hello, nonce: bytes) -> frames.Hello:
    return frames.Hello(**{**{name: getattr(hello, name) for name in hello.__struct_fields__}, "nonce": nonce})


@asynccontextmanager
async def serving(
    voter: FakeVoter,
    *,
    urls: dict[str, str] | None = None,
    timing: LinkTiming = QUICK,
    token: bytes = TOKEN,
    running: bool = True,
    port: int = 0,
) -> AsyncIterator[str]:
    """Run the peers and the cluster listener of one voter; yields the listener's base URL."""
    own = voter.identity.name
    peers = Peers(node=voter, urls=urls or {}, token=token, randomness=random.Random(own), timing=timing)
    with bound("cluster", "127.0.0.1", port) as socket:
        listener = Listener(
            name="cluster",
            socket=socket,
            bearers=Bearers([(Principal("cluster", "cluster"), TOKEN)]),
            routes=[
                SocketRoute(
                    PATH,
                    frozenset({"cluster"}),
                    peers.accept,
                    max_message_bytes=MAX_MESSAGE_BYTES,
                    heartbeat_s=timing.heartbeat_s,
                )
            ],
            max_body_bytes=1,
        )
        port = await listener.start()
        async with asyncio.TaskGroup() as group:
            dialling = group.create_task(peers.run()) if running else None
            await asyncio.sleep(0)
            try:
                yield f"http://127.0.0.1:{port}"
            finally:
                if dialling is not None:
                    dialling.cancel()
                    await asyncio.wait([dialling])
                await listener.close()


async def until(holds: Callable[[], object]) -> None:
    """Wait for a log line, of which nothing tells but the list that it ends up in."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - structlog's capture is a plain list
            await asyncio.sleep(0.005)


def quick(**changes: float) -> LinkTiming:
    return replace(QUICK, **changes)  # type: ignore[arg-type] - queue_bytes is an int, and given as one
