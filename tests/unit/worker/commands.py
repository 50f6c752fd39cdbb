"""Commands started for tests as real processes; every wait is for an event, with a limit far above what it takes."""

import asyncio
import os
import subprocess
import time
from pathlib import Path

from tests.unit.worker.world import claim
from worker.capability import MINT, LaunchCapability
from worker.engine import host
from worker.engine.command import CommandEngine
from worker.engine.process import CommandWork, Limits
from worker.outcome import Outcome
from worker.protocol import CommandTarget

LIMITS = Limits(stop_grace_s=5.0, leftover_grace_s=5.0, drain_s=0.2)
HOST_ENV = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C", "SECRET": "not passed on"}


class HostClock:
    def mono_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


def engine(folder: Path, limits: Limits = LIMITS) -> CommandEngine:
    return CommandEngine(folder / "output", host_env=HOST_ENV, clock=HostClock(), limits=limits)


async def start(folder: Path, *argv: str, limits: Limits = LIMITS, **target: object) -> CommandWork:
    run_id = folder.name
    made = claim((run_id, 1), incarnation="i", ledger="l", target=CommandTarget(argv=argv, **target))
    return await engine(folder, limits).submit(LaunchCapability(run_id, 1, 7, mint=MINT), made)


async def shell(folder: Path, script: str, **options: object) -> Outcome:
    work = await start(folder, "sh", "-c", script, **options)
    async with asyncio.timeout(60):
        return await work.observe()


def fifo(folder: Path) -> Path:
    """A named pipe through which a command says that it has come so far."""
    path = folder / "so-far"
    os.mkfifo(path)
    return path


async def up(path: Path) -> None:
    """Wait until a command has written to its named pipe."""
    assert await asyncio.to_thread(path.read_text) == "up\n"


async def pid_from(path: Path) -> host.Process:
    """Wait until a process has written its pid to its named pipe, and return it: as one that is dead, if it has ended since."""
    pid = int(await asyncio.to_thread(path.read_text))
    return host.process(pid) or host.Process(pid, 0, 0, 0, 0, "X", alive=False)


def beside(*argv: str, stdout: Path | None = None) -> "subprocess.Popen[bytes]":
    """Start a process that belongs to no attempt."""
    with (stdout if stdout is not None else Path(os.devnull)).open("wb") as out:
        return subprocess.Popen(argv, stdout=out)


def is_alive(each: host.Process) -> bool:
    now = host.process(each.pid)
    return now is not None and now.key == each.key and now.alive


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def living(folder: Path) -> list[host.Process]:
    """Return what is alive of a test's command, whose run id is the name of its folder."""
    return host.traces(folder.name, 1, None)


def output(folder: Path, kind: str = "out") -> Path:
    return folder / "output" / f"{folder.name}.1.{kind}"
