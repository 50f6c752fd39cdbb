"""Real voters and workers on loopback, as an operator would start them: through the command line and TOML files only."""

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from fencepost.client import Patience
from fencepost.main import main

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
FENCEPOST = [sys.executable, "-m", "fencepost"]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT), "SSL_CERT_FILE": os.devnull}
"""The checkout that the test stands in, wherever the environment's own copy is; nobody speaks TLS on loopback, and to
read the authorities of the web takes a tenth of each start."""
HANG_S = 60.0
"""No step of these tests takes nearly as long; past it something hangs."""
LOOK_MOST_S = 0.2


BASE_PORTS = [first + rank for first in range(10_000, 32_000, 300) for rank in range(0, 100, 10)]
"""Below the range from which the system gives ports to those who dial."""


def free_base_port(voters: int) -> int:
    """Return a base port whose ports for `voters` nodes can be bound now, and that no other test takes before this
    process ends: whoever holds its UDP port has it."""
    for base in random.sample(BASE_PORTS, len(BASE_PORTS)):
        with socket.socket(type=socket.SOCK_DGRAM) as claim, suppress(OSError):
            claim.bind(("127.0.0.1", base))
            if all(_is_free(base + offset + i) for offset in (0, 100, 200) for i in range(1, voters + 1)):
                claim.detach()
                return base
    raise AssertionError("no free ports on loopback")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def wait_for(what: str, look: Callable[[], T | None], within_s: float = HANG_S) -> T:
    """Return the first true answer of `look`; fail, naming `what`, if none comes in time."""
    deadline, pause_s = time.monotonic() + within_s, 0.01
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s:.0f} s in vain for {what}")
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, LOOK_MOST_S)


def fresh_key() -> str:
    """Return a UUIDv7 of now, as a client mints it."""
    stamp = time.time_ns() // 1_000_000
    bits = (stamp << 80) | (7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=bits))


class Cluster:
    """One cluster folder and the processes that run from it."""

    def __init__(self, folder: Path, voters: int = 3, workers: int = 1) -> None:
        self.folder = folder
        self.dir = folder / "cluster"
        self.voters = [f"node{i}" for i in range(1, voters + 1)]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.base = free_base_port(voters)
        done = self.told(
            "init", str(self.dir), "--voters", str(voters), "--workers", str(workers), "--base-port", str(self.base)
        )
        assert done.returncode == 0, done.stderr

    def told(
        self, *words: str, config: str = "operator.toml", patience_s: float = 10.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in this process: what is asked again and again needs no interpreter each time.

        With `patience_s` a change that nobody can do is given up sooner or later than by a person's command.
        """
        out, err = StringIO(), StringIO()
        with (
            patch("fencepost.main.Patience", partial(Patience, total_s=patience_s)),
            patch.dict(os.environ, FENCEPOST_CONFIG=str(self.dir / config)),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main(words)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def call(self, *words: str, config: str = "operator.toml") -> subprocess.CompletedProcess[str]:
        """Run a command to its end in a process of its own, as a person would."""
        env = {**ENVIRON, "FENCEPOST_CONFIG": str(self.dir / config)}
        return subprocess.run(
            [*FENCEPOST, *words], capture_output=True, text=True, timeout=HANG_S, cwd=self.folder, env=env, check=False
        )

    def json(self, *words: str, config: str = "operator.toml") -> Any:
        """Return what a reading command prints, or None while it cannot."""
        done = self.told(*words, "--json", config=config)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start(self, *names: str) -> None:
        for name in names:
            role = "worker" if name.startswith("worker") else "runner"
            with self.log(name).open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [*FENCEPOST, role, "--config", str(self.dir / f"{name}.toml")],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    env=ENVIRON,
                    start_new_session=True,
                )

    def start_voters(self) -> None:
        self.start(*self.voters)
        wait_for("every voter to be ready", lambda: {self.is_ready(name) for name in self.voters} == {True})

    def is_ready(self, name: str) -> bool:
        assert self.processes[name].poll() is None, f"{name} ended: {self.log(name).read_text()[-3000:]}"
        return '"event": "ready"' in self.log(name).read_text()

    def kill(self, *names: str) -> None:
        for name in names:
            self.processes[name].kill()
        for name in names:
            self.processes.pop(name).wait()

    def owner(self) -> str | None:
        """Return the voter that says of itself that it owns, as the first reachable voter tells it."""
        status = self.json("status")
        return status["owner"] if status else None

    def wait_for_owner(self) -> str:
        return wait_for("an owner", self.owner)

    def runs(self, *words: str) -> list[dict[str, Any]]:
        return wait_for("a list of runs", lambda: self.json("runs", "--limit", "1000", *words) or None)

    def apply(self, text: str) -> None:
        path = self.folder / "schedules.toml"
        path.write_text(text)
        done = self.told("apply", "-f", str(path))
        assert done.returncode == 0, done.stderr

    def stop(self) -> None:
        """End all: the workers first, which otherwise wait for somebody to take their last reports."""
        voters = [process for name, process in self.processes.items() if name in self.voters]
        workers = [process for process in self.processes.values() if process not in voters]
        for several in (workers, voters):
            for process in several:
                process.send_signal(signal.SIGTERM)
            for process in several:
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@contextmanager
def running_cluster(folder: Path, voters: int = 3, workers: int = 1, made: Cluster | None = None) -> Iterator[Cluster]:
    """Start all voters and workers (of a cluster already made, if given); leave no process behind, whatever happens."""
    cluster = made or Cluster(folder, voters, workers)
    try:
        cluster.start_voters()
        cluster.start(*["worker" if i == 1 else f"worker{i}" for i in range(1, workers + 1)])
        yield cluster
    finally:
        cluster.stop()
