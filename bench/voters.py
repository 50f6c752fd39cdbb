"""Three `bench.voter` processes, from outside."""

import http.client
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from bench import ops, plan, wire
from bench.dialects import Fencepost
from bench.figures import Load, Measured
from bench.member import asked, leader_of
from bench.processes import Failed, Processes, free_ports

FILL_S_PER_ROW = 0.01  # a bound, not an estimate


class Voters:
    """A cluster of compare-and-set voters."""

    title = "fencepost"

    def __init__(self, folder: Path) -> None:
        """Write the genesis of a new cluster into an empty folder."""
        self._plan, self._path = plan.create(folder, free_ports(len(plan.NAMES)))
        self._dialect = Fencepost(self._plan.token)
        self._fresh = ops.fresh()
        self.ports = self._plan.ports
        self.token = self._plan.token
        self.processes = Processes(folder)

    def start(self, name: str) -> None:
        """Start one voter."""
        self.processes.start(name, [sys.executable, "-m", "bench.voter", str(self._path), name])

    def status(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """Return a voter's own view, or None while it is away."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return asked(self.ports[name], wire.request("/bench/status", b"", headers, method="GET"))

    def settled(self) -> str | None:
        """Return who leads, or None unless every voter is up, linked to all and has applied the same."""
        views = [self.status(name) for name in self.ports]
        if not all(views) or not all(peer["connected"] for view in views for peer in view["voters"]):
            return None
        same = {(view["leader"], view["term"], view["applied_index"]) for view in views}
        leaders: set[str | None] = {view["leader"] for view in views}
        return leaders.pop() if len(same) == 1 else None

    def change(self) -> bytes:
        """Return the request of a fresh change."""
        return self._dialect.request(list(islice(self._fresh, 1)))

    def accepted(self, answer: wire.Answer) -> bool:
        """Return whether the change was carried out."""
        return self._dialect.accepted(answer, 1)

    def load_inside(self, load: Load) -> Measured:
        """Run clients inside the leader's process."""
        body = self._told("/bench/load", msgspec.json.encode(load), load.warm_s + load.counted_s + 30)
        return msgspec.json.decode(body, type=Measured)

    def fill(self, rows: int) -> float:
        """Create rows through the log; return the seconds that it took."""
        return float(self._told("/bench/fill", str(rows).encode(), 30 + rows * FILL_S_PER_ROW))

    def _told(self, path: str, body: bytes, within_s: float) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[leader_of(self)], timeout=within_s)
        try:
            connection.request("POST", path, body, {"Authorization": f"Bearer {self.token}"})
            reply = connection.getresponse()
            content = reply.read()
        finally:
            connection.close()
        if reply.status != http.client.OK:
            raise Failed(f"{path}: {reply.status} {content.decode(errors='replace')}")
        return content


@contextmanager
def running(folder: Path) -> Iterator[Voters]:
    """Start three voters; leave none behind, whatever happens."""
    folder.mkdir()
    voters = Voters(folder)
    try:
        for name in voters.ports:
            voters.start(name)
        leader_of(voters)
        yield voters
    finally:
        voters.processes.stop()
