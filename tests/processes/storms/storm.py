"""One storm: faults for a while, then healing, then everything must hold."""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from tests.linearizability.cells import Add, Cell, Read
from tests.linearizability.checker import check
from tests.linearizability.history import Done
from tests.processes.storms.clients import COUNTERS, REGISTERS, Clients
from tests.processes.storms.nemesis import Nemesis
from tests.processes.storms.network import open_network
from tests.processes.storms.rig import Away, Connection, Rig

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 512 << 20
LEAST_FAULTS, LEAST_DONE = 5, 50
"""On a machine that is too busy for that a storm goes on: a shorter one would show nothing."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a storm was, and what it found.

    Attributes:
        outcomes: how many calls ended `Done`, `NotDone` and `Unknown`.
        events: how often voters logged some events.
        violations: what must not be, in words; empty if all held.
    """

    faults: Counter[str]
    outcomes: Counter[str]
    events: Counter[str]
    violations: list[str]


async def storm(network: str, seed: int, seconds: float, fault: str = "") -> Report:
    """Run one storm.

    Raises:
        Unavailable: this machine cannot have such a network.
        AssertionError: the voters did not come to rest or go on after healing.
    """
    with _folder() as folder:
        async with open_network(network) as between, _running(Rig(folder, between, fault)) as rig:
            clients, nemesis = Clients(rig, random.Random(f"{seed} clients")), Nemesis(rig, seed)
            async with asyncio.TaskGroup() as group:
                group.create_task(clients.run())
                try:
                    await nemesis.rage(seconds)
                    while nemesis.done.total() < LEAST_FAULTS or clients.counts()["Done"] < LEAST_DONE:
                        await nemesis.rage(1.0)
                finally:
                    clients.end()
            await nemesis.heal()
            await rig.wait_for("a new command", lambda: _goes_on(rig, clients))
            await _read_all(rig, clients)
            await rig.wait_for("equal digests", rig.settled)
            violations = [str(violation) for violation in check(clients.history, Cell())]
            violations += [complaint for voter in rig.voters.values() for complaint in voter.complaints]
            events = Counter({event: rig.told(event) for event in ("role", "link up", "snapshot installed")})
            if violations:
                violations += [f"{name}: {rig.log(name).read_text()[-3000:]}" for name in rig.voters]
            return Report(nemesis.done, clients.counts(), events, violations)


@asynccontextmanager
async def _running(rig: Rig) -> AsyncIterator[Rig]:
    async with asyncio.TaskGroup() as group:
        try:
            await rig.start(group)
            await rig.wait_for("the first leader", rig.settled)
            yield rig
        finally:
            await rig.end()


async def _asked(rig: Rig, clients: Clients, key: str, call: Add | Read) -> bool:
    """Ask the likely leader, else whoever comes next; return whether it was done."""
    connection: Connection
    for name in (rig.latest, *rig.voters):
        try:
            connection = await rig.connect(name)
        except Away:
            continue
        try:
            await clients.call(connection, key, call)
        finally:
            connection.close()
        if isinstance(clients.history[-1].outcome, Done):
            return True
    return False


async def _goes_on(rig: Rig, clients: Clients) -> bool:
    return await _asked(rig, clients, "afterwards", Add(1))


async def _read_all(rig: Rig, clients: Clients) -> None:
    """Read every cell: what was acknowledged last has had no reader yet."""
    for key in (*REGISTERS, *COUNTERS):
        await rig.wait_for(f"a read of {key}", lambda key=key: _asked(rig, clients, key, Read()))


@contextmanager
def _folder() -> Iterator[Path]:
    """Have a folder in memory where there is enough: kill -9 takes nothing from a page cache, an fsync only time."""
    roomy = MEMORY.is_dir() and disk_usage(MEMORY).free > MEMORY_BYTES
    with tempfile.TemporaryDirectory(prefix="storm", dir=MEMORY if roomy else None) as folder:
        yield Path(folder)
