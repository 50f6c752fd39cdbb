"""Three real voters, from outside: started, killed, stopped, asked."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.processes.storms import plan
from tests.processes.storms.network import Network

T = TypeVar("T")

ROOT = Path(__file__).parents[3]
HANG_S = 30.0
"""Nothing takes nearly as long; past it something hangs."""


class Away(Exception):
    """No connection to a voter: nothing was sent."""


class Voter:
    """One voter, and the process that forks it anew after each end."""

    def __init__(self, name: str, ask_for: Callable[[str], None]) -> None:
        self.name = name
        self.pid: int | None = None
        self.complaints: list[str] = []
        self._ask_for = ask_for
        self._changed = asyncio.Event()
        self._asked_for = self._to_be_killed = False

    def told(self, what: str, number: str) -> None:
        """Take what the forking process tells; whoever ends without being killed is complained about."""
        if what == "started":
            self.pid = int(number)
        else:
            self.pid, self._asked_for = None, False
            if not self._to_be_killed:
                self.complaints.append(f"{self.name} ended by itself with status {number}")
        self._changed.set()

    async def start(self) -> None:
        """Start it, if it does not run or start already."""
        if not self._asked_for:
            self._asked_for, self._to_be_killed = True, False
            self._ask_for(self.name)
        await self._until(lambda: self.pid is not None)

    async def kill(self) -> None:
        """Kill it (SIGKILL), if it runs."""
        if self.pid is not None:
            self._to_be_killed = True
            os.kill(self.pid, signal.SIGKILL)
            await self._until(lambda: self.pid is None)

    def stop(self) -> None:
        """Let it stand still, if it runs."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGCONT)

    async def _until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(HANG_S):
            while not true():
                self._changed.clear()
                await self._changed.wait()


class Rig:
    """The cluster of one storm.

    Attributes:
        latest: which voter acknowledged something last; most likely it leads.
    """

    def __init__(self, folder: Path, network: Network, fault: str = "") -> None:
        self.network = network
        self.voters = {name: Voter(name, self._ask_for) for name in plan.NAMES}
        self.latest = plan.NAMES[0]
        self._folder = folder
        self._plan = plan.create(
            folder,
            listen=network.listen,
            urls={name: network.urls(name) for name in plan.NAMES},
            spaces=network.spaces,
            fault=fault,
        )
        self._nursery: asyncio.subprocess.Process | None = None

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Start all voters."""
        with (self._folder / "nursery.log").open("ab") as log:
            self._nursery = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.processes.storms.voter", str(self._plan)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        group.create_task(self._watch(self._nursery))
        await asyncio.gather(*(voter.start() for voter in self.voters.values()))

    def _ask_for(self, name: str) -> None:
        assert self._nursery is not None
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(f"{name}\n".encode())

    async def _watch(self, nursery: asyncio.subprocess.Process) -> None:
        assert nursery.stdout is not None
        while line := await nursery.stdout.readline():
            name, what, number = line.decode().split()
            self.voters[name].told(what, number)

    async def end(self) -> None:
        """Leave no process behind."""
        if self._nursery is not None:
            for voter in self.voters.values():
                await voter.kill()
            assert self._nursery.stdin is not None
            self._nursery.stdin.close()
            await self._nursery.wait()

    def log(self, name: str) -> Path:
        """Return where a voter writes its log."""
        return self._folder / f"{name}.log"

    def told(self, event: str) -> int:
        """Return how often the voters logged an event."""
        return sum(self.log(name).read_text(errors="replace").count(f'"event": "{event}"') for name in plan.NAMES)

    async def connect(self, name: str) -> "Connection":
        """Connect to a voter's front.

        Raises:
            Away: nobody is there.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(plan.front(self._folder, name))
        except OSError as error:
            raise Away(name) from error
        return Connection(name, reader, writer)

    async def status(self, name: str) -> dict[str, Any] | None:
        """Return what a voter says of itself, or None if it does not within a second."""
        try:
            connection = await self.connect(name)
        except Away:
            return None
        try:
            async with asyncio.timeout(1):
                answer = await connection.ask(["status"])
        except TimeoutError:
            return None
        finally:
            connection.close()
        return answer[1] if answer else None

    async def wait_for(self, what: str, look: Callable[[], Awaitable[T | None]]) -> T:
        """Return the first true answer of `look`.

        Raises:
            AssertionError: none came in time.
        """
        deadline_s = asyncio.get_running_loop().time() + HANG_S
        while not (found := await look()):
            if asyncio.get_running_loop().time() > deadline_s:
                views = {name: await self.status(name) for name in plan.NAMES}
                raise AssertionError(f"waited {HANG_S:.0f} s in vain for {what}: {views}")
            await asyncio.sleep(0.02)  # the pace of looking
        return found

    async def settled(self) -> str | None:
        """Return the leader, once all voters are linked, stand at one index and have equal digests."""
        views = [await self.status(name) for name in plan.NAMES]
        up = [view for view in views if view is not None]
        if len(up) < len(views) or not all(peer["connected"] for view in up for peer in view["voters"]):
            return None
        same = {(view["leader"], view["term"], view["applied_index"], view["digest"]) for view in up}
        return up[0]["leader"] if len(same) == 1 else None


class Connection:
    """One client's connection to one voter, for one question at a time."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self._reader, self._writer = reader, writer

    async def ask(self, words: list[Any]) -> list[Any] | None:
        """Return the answer, or None if the connection ended before it came."""
        try:
            self._writer.write(json.dumps(words).encode() + b"\n")
            line = await self._reader.readline()
        except OSError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        """End it."""
        self._writer.transport.abort()
