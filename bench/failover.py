"""Part 2: from the loss of the owner to the next accepted change, as a caller of the survivors sees it."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from itertools import cycle
from pathlib import Path
from typing import Final

from bench import etcd, runners, wire
from bench.figures import MS, spread
from bench.member import Cluster, leader_of
from bench.processes import Failed
from bench.table import say, table

POLL_S: Final = 0.01
ATTEMPT_S: Final = 2.0
AWAY_S: Final = 30.0
NOT_NOW: Final = frozenset({408, 429, 500, 502, 503, 504})
"""What a survivor may answer while nobody leads; any other refusal is a fault of the bench, which must not count."""
CALM_S: Final = 1.5
"""A cluster is left alone so long after it has settled, so that no fault meets the traces of the last."""


class Fault(Enum):
    """What befalls the owner."""

    KILLED = "kill -9"
    STOPPED = "SIGSTOP"


def run(folder: Path, times: int, *, with_etcd: bool) -> None:
    """Measure both faults so many times for each system, and print the table."""
    systems: list[Callable[[Path], AbstractContextManager[Cluster]]] = [runners.running]
    if with_etcd:
        systems.append(etcd.running)
    rows: list[list[str]] = []
    for running in systems:
        with running(folder / f"failover-{len(rows)}") as cluster:
            for fault in Fault:
                took_ms = [once(cluster, fault) * MS for _ in range(times)]
                rows.append([cluster.title, fault.value, spread(took_ms), str(len(took_ms))])
    say(
        f"\n### The owner is lost: ms to the next accepted change (asked every {POLL_S * MS:.0f} ms, survivors in turn)\n"
    )
    table(["who", "fault", "ms", "n"], rows)


def once(cluster: Cluster, fault: Fault) -> float:
    """Lose the owner, time the next accepted change, and bring the owner back; return seconds."""
    owner = leader_of(cluster)
    time.sleep(CALM_S)
    owner = leader_of(cluster)  # it may have changed meanwhile
    survivors = [port for name, port in cluster.ports.items() if name != owner]
    began_s = time.perf_counter()
    if fault is Fault.KILLED:
        cluster.processes.kill(owner)
    else:
        cluster.processes.signal(owner, signal.SIGSTOP)
    took_s = asyncio.run(first_accepted(cluster, survivors)) - began_s
    if fault is Fault.STOPPED:
        cluster.processes.kill(
            owner
        )  # what its operator would do; what a woken one does is the process tests' business
    cluster.start(owner)
    return took_s


async def first_accepted(cluster: Cluster, ports: Sequence[int]) -> float:
    """Ask for one change after another, none waiting for another; return when the first was accepted.

    Raises:
        Failed: none was in time, or one was refused for good.
    """
    accepted: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def attempt(port: int) -> None:
        try:
            async with asyncio.timeout(ATTEMPT_S):
                answer = await wire.ask(port, cluster.change())
        except (OSError, wire.Torn):  # TimeoutError is one
            return
        if accepted.done():
            return
        if cluster.accepted(answer):
            accepted.set_result(time.perf_counter())
        elif answer.status not in NOT_NOW:
            accepted.set_exception(Failed(f"a change was refused: {answer.status} {answer.body[:300]!r}"))

    async def attempts() -> None:
        async with asyncio.TaskGroup() as group:
            for port in cycle(ports):
                group.create_task(attempt(port))
                await asyncio.sleep(POLL_S)

    polling = asyncio.ensure_future(attempts())
    try:
        async with asyncio.timeout(AWAY_S):
            return await accepted
    except TimeoutError:
        raise Failed(f"{cluster.title}: no change was accepted within {AWAY_S:.0f} s of the loss") from None
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
