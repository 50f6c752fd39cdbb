"""Real voters and workers on loopback, as an operator would start them: through the command line and TOML files only."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
FENCEPOST = [sys.executable, "-m", "fencepost"]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}
"""The checkout that the test stands in, wherever the environment's own copy is."""
HANG_S = 60.0
"""No step of these tests takes nearly as long; past it something hangs."""


def free_base_port(voters: int) -> int:
    """Return a base port whose ports for `voters` nodes can be bound now."""
    for _ in range(500):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            base = probe.getsockname()[1]
        ports = [base + offset + i for offset in (0, 100, 200) for i in range(1, voters + 1)]
        if max(ports) < 65_536 and all(_is_free(port) for port in ports):
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
    deadline = time.monotonic() + within_s
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s:.0f} s in vain for {what}")
        time.sleep(0.05)


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
        done = self.call(
            "init", str(self.dir), "--voters", str(voters), "--workers", str(workers), "--base-port", str(self.base)
        )
        assert done.returncode == 0, done.stderr

    def call(self, *words: str, config: str = "operator.toml") -> subprocess.CompletedProcess[str]:
        """Run a client command to its end."""
        env = {**ENVIRON, "FENCEPOST_CONFIG": str(self.dir / config)}
        return subprocess.run(
            [*FENCEPOST, *words], capture_output=True, text=True, timeout=HANG_S, cwd=self.folder, env=env, check=False
        )

    def json(self, *words: str, config: str = "operator.toml") -> Any:
        """Return what a reading command prints, or None while it cannot."""
        done = self.call(*words, "--json", config=config)
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
        for name in self.voters:
            wait_for(f"{name} to be ready", lambda name=name: self.is_ready(name))

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
        done = self.call("apply", "-f", str(path))
        assert done.returncode == 0, done.stderr

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
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
