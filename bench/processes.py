"""Processes by name: started in sessions of their own, ended by their own pid, their logs kept in one folder."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[1]
ENVIRON: Final = {**os.environ, "PYTHONPATH": str(ROOT)}
GRACE_S: Final = 10.0
LOOK_S: Final = 0.02


class Failed(Exception):
    """A part of the bench cannot go on; the text says what was waited for, and what a process said last."""


class Processes:
    """The processes of one cluster."""

    def __init__(self, folder: Path) -> None:
        """Keep logs in `folder`, and start everything there."""
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start one; it must not be running."""
        assert name not in self._running
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=ENVIRON,
                start_new_session=True,
            )

    def kill(self, *names: str) -> None:
        """End some at once (kill -9)."""
        for name in names:
            self._running[name].kill()
        for name in names:
            self._running.pop(name).wait()

    def signal(self, name: str, signum: signal.Signals) -> None:
        """Send one a signal."""
        self._running[name].send_signal(signum)

    def stop(self) -> None:
        """End all, gently first; a stopped one is woken for it. Idempotent."""
        for process in self._running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline_s = time.monotonic() + GRACE_S
        for process in self._running.values():
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def rss_mib(self, name: str) -> float:
        """Return the memory that one has in RAM now."""
        status = Path(f"/proc/{self._running[name].pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def wait_for(self, what: str, look: Callable[[], T | None], within_s: float = 60.0) -> T:
        """Return the first true answer of `look`.

        Raises:
            Failed: none came in time, or a process has ended meanwhile.
        """
        deadline_s = time.monotonic() + within_s
        while not (found := look()):
            ended = [name for name, process in self._running.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline_s:
                told = "".join(f"\n{name}: {self._last_words(name)}" for name in ended or self._running)
                raise Failed(f"waited in vain for {what}{told}")
            time.sleep(LOOK_S)
        return found

    def _last_words(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-800:]


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that can be bound now."""
    with ExitStack() as stack:
        return [_probe(stack, 0) for _ in range(count)]


def free_base_port(offsets: Sequence[int]) -> int:
    """Return a port p such that p + each offset can be bound now.

    Raises:
        Failed: none was found.
    """
    for base in range(21_000, 60_000, 50):
        try:
            with ExitStack() as stack:
                for offset in offsets:
                    _probe(stack, base + offset)
        except OSError:
            continue
        return base
    raise Failed("no free ports on loopback")


def _probe(stack: ExitStack, port: int) -> int:
    probe = stack.enter_context(socket.socket())
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", port))
    return int(probe.getsockname()[1])
