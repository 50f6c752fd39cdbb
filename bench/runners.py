"""Three real `fencepost runner` processes, made by `fencepost init`, from outside."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from bench import wire
from bench.member import asked, leader_of
from bench.processes import ENVIRON, Failed, Processes, free_base_port

VOTERS: Final = 3
MANAGEMENT_OFFSET: Final = 200
OFFSETS: Final = [offset + i for offset in (0, 100, MANAGEMENT_OFFSET) for i in range(1, VOTERS + 1)]


class Runners:
    """A cluster as an operator has it; the change is the limit of a pool, set anew each time."""

    title = "fencepost"

    def __init__(self, folder: Path) -> None:
        """Make the cluster's folder in an empty one."""
        base = free_base_port(OFFSETS)
        self._cluster = folder / "cluster"
        words = ["init", str(self._cluster), "--voters", str(VOTERS), "--base-port", str(base)]
        argv = [sys.executable, "-m", "fencepost", *words]
        done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRON, timeout=60, check=False)
        if done.returncode != 0:
            raise Failed(f"fencepost init: {done.stderr}")
        token = (self._cluster / "credentials" / "operator.token").read_text(encoding="ascii").strip()
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._limits = cycle(range(10, 1000))
        self._stamps = count(time.time_ns())
        self.ports = {f"node{i}": base + MANAGEMENT_OFFSET + i for i in range(1, VOTERS + 1)}
        self.processes = Processes(folder)

    def start(self, name: str) -> None:
        """Start one voter."""
        config = str(self._cluster / f"{name}.toml")
        self.processes.start(name, [sys.executable, "-m", "fencepost", "runner", "--config", config])

    def settled(self) -> str | None:
        """Return the owner, or None unless every voter is up, linked to all, has applied the same and names the same."""
        raw = wire.request("/v1/status", b"", self._headers, method="GET")
        views: list[Any] = [asked(port, raw) for port in self.ports.values()]
        if not all(views) or not all(peer["connected"] for view in views for peer in view["voters"]):
            return None
        owners: set[str | None] = {view["owner"] for view in views}
        return owners.pop() if len(owners) == 1 else None

    def change(self) -> bytes:
        """Return the request of a fresh change, under a key of its own."""
        body = {"pools": [{"name": "default", "limit": next(self._limits)}]}
        key = _operation_key(next(self._stamps))
        return wire.request("/v1/apply", json.dumps(body).encode(), {**self._headers, "Idempotency-Key": key})

    def accepted(self, answer: wire.Answer) -> bool:
        """Return whether the change was carried out."""
        return answer.status == 200  # noqa: PLR2004 - OK


def _operation_key(stamp_ns: int) -> str:
    """Return a UUIDv7 whose instant and whose other bits both come from a stamp that is used once."""
    return str(UUID(int=((stamp_ns // 1_000_000) << 80) | (7 << 76) | (0b10 << 62) | stamp_ns & (1 << 62) - 1))


@contextmanager
def running(folder: Path) -> Iterator[Runners]:
    """Start three voters; leave none behind, whatever happens."""
    folder.mkdir()
    runners = Runners(folder)
    try:
        for name in runners.ports:
            runners.start(name)
        leader_of(runners)
        yield runners
    finally:
        runners.processes.stop()
