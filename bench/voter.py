"""One voter with a compare-and-set machine, as a process: `python -m bench.voter PLAN NAME`, until SIGTERM.

It is wired from the product's own parts as `fencepost runner` is: Node, Peers and one Listener. The load may come over
that listener, one HTTP hop, or from clients in this process, which is what the runner is to its voter.
"""

import asyncio
import secrets
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from bench import inside
from bench.cells import Cells
from bench.figures import Load
from bench.plan import Plan
from cluster import websocket
from cluster.bearer import Bearers, Principal
from cluster.crowd import DEFAULT_LIMITS, Limits
from cluster.listener import Listener, Reply, Request, Route, SocketRoute, bound
from cluster.node import Node
from cluster.outcome import NotApplied, OutcomeUnknown
from cluster.ports import Timing
from cluster.problem import Problem
from cluster.websocket import Peers
from fencepost.runner_process import SWITCH_S
from fencepost.system import SystemClock, log_to_stderr

MAX_BODY_BYTES = 1 << 20
ROLES = frozenset({"cluster"})


def routes(node: Node, peers: Peers) -> list[Route | SocketRoute]:
    """Return what a voter of the bench serves."""

    async def cells(request: Request) -> Reply:
        try:
            result = (await node.propose(request.body)).result
        except NotApplied as fault:
            raise Problem(503, "Service Unavailable", str(fault), "not_done") from None
        except OutcomeUnknown as fault:
            raise Problem(503, "Service Unavailable", str(fault), "unknown") from None
        assert isinstance(result, bytes)
        return Reply(body=result, content_type="application/octet-stream")

    async def load(request: Request) -> Reply:
        return Reply(body=msgspec.json.encode(await inside.measure(node, msgspec.json.decode(request.body, type=Load))))

    async def fill(request: Request) -> Reply:
        return Reply(body=msgspec.json.encode(await inside.fill(node, int(request.body))))

    async def status(_request: Request) -> Reply:
        return Reply(body=msgspec.json.encode(node.status()))

    return [
        SocketRoute(websocket.PATH, ROLES, peers.accept, max_message_bytes=websocket.MAX_MESSAGE_BYTES),
        Route("POST", "/bench/cells", ROLES, cells),
        Route("POST", "/bench/load", ROLES, load),
        Route("POST", "/bench/fill", ROLES, fill),
        Route("GET", "/bench/status", ROLES, status),
    ]


async def serve(plan: Plan, name: str) -> None:
    """Serve until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with AsyncExitStack() as stack:
        socket = stack.enter_context(bound("bench", "127.0.0.1", plan.ports[name]))
        randomness = secrets.SystemRandom()
        node = Node.open(
            Path(plan.folder) / name,
            name=name,
            cluster_id=plan.cluster_id,
            members=plan.ports.keys(),
            machine=Cells(),
            clock=SystemClock(),
            randomness=randomness,
            timing=Timing(),
        )
        stack.push_async_callback(node.close)
        token = plan.token.encode("ascii")
        urls = {member: f"http://127.0.0.1:{port}" for member, port in plan.ports.items()}
        peers = Peers(node=node, urls=urls, token=token, randomness=randomness)
        listener = Listener(
            name="bench",
            socket=socket,
            bearers=Bearers([(Principal(name="bench", role="cluster"), token)]),
            routes=routes(node, peers),
            max_body_bytes=MAX_BODY_BYTES,
            limits=Limits(requests_of_one=DEFAULT_LIMITS.requests),
        )
        await listener.start()
        stack.push_async_callback(listener.close)
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(part) for part in (node.run(), peers.run(), listener.watch())]
            await stopping.wait()
            for part in parts:
                part.cancel()


def main(plan: str, name: str) -> None:
    """Serve one voter of a plan."""
    log_to_stderr(node=name)
    sys.setswitchinterval(SWITCH_S)
    asyncio.run(serve(msgspec.json.decode(Path(plan).read_bytes(), type=Plan), name))


if __name__ == "__main__":
    main(*sys.argv[1:])
