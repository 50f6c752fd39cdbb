"""Load from inside the leader's process: clients that await `Node.propose`, as the runner does."""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

from bench import ops
from bench.cells import CompareAndSet, encode
from bench.figures import Load, Measured, Window
from cluster.node import Node
from cluster.outcome import NotApplied, OutcomeUnknown

FILL_CLIENTS: Final = 8
FILL_OPS: Final = 100  # rows a command


async def measure(node: Node, load: Load) -> Measured:
    """Run the clients of one load to their end; the whole process, its voter included, counts as the client's CPU."""
    window, fresh = Window(load), ops.fresh()
    async with asyncio.TaskGroup() as group:
        for _ in range(load.shape.clients):
            group.create_task(_client(node, window, fresh, load.shape.ops))
    return window.measured()


async def _client(node: Node, window: Window, fresh: Iterator[CompareAndSet], size: int) -> None:
    while True:
        command = encode(list(islice(fresh, size)))
        sent_s = time.perf_counter()
        if not window.answered(sent_s, accepted=await _created(node, command, size)):
            return


async def fill(node: Node, rows: int) -> float:
    """Create so many rows through the log, as a cluster gets them in its life; return the seconds that it took."""
    began_s, fresh = time.perf_counter(), ops.fresh()
    commands = iter([FILL_OPS] * (rows // FILL_OPS) + [rows % FILL_OPS] * (rows % FILL_OPS > 0))

    async def work() -> None:
        for size in commands:  # shared: each takes what is next
            assert await _created(node, encode(list(islice(fresh, size))), size), "leadership ended while filling"

    async with asyncio.TaskGroup() as group:
        for _ in range(FILL_CLIENTS):
            group.create_task(work())
    return time.perf_counter() - began_s


async def _created(node: Node, command: bytes, size: int) -> bool:
    try:
        return (await node.propose(command)).result == b"\x01" * size
    except (NotApplied, OutcomeUnknown):
        return False
