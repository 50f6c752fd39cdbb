"""Three local members of Debian's etcd, with its defaults: fsync on, 100 ms heartbeat, 1 s election timeout."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from bench import ops, wire
from bench.dialects import Etcd
from bench.member import asked, leader_of
from bench.processes import Processes, free_ports

NAMES = ("etcd1", "etcd2", "etcd3")
MISSING = "no `etcd` on PATH: apt-get install etcd-server"


def version() -> str | None:
    """Return the installed version, or None where there is none."""
    path = shutil.which("etcd")
    if path is None:
        return None
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=10).stdout
    return told.partition("\n")[0].removeprefix("etcd Version: ")


class Members:
    """A cluster of etcd."""

    title = "etcd"

    def __init__(self, folder: Path) -> None:
        """Choose ports; each member's data lies in `folder`."""
        ports = free_ports(2 * len(NAMES))
        self._dialect = Etcd()
        self._fresh = ops.fresh()
        self.ports = dict(zip(NAMES, ports, strict=False))
        self._peer_urls = {name: f"http://127.0.0.1:{port}" for name, port in zip(NAMES, ports[3:], strict=True)}
        self.processes = Processes(folder)

    def start(self, name: str) -> None:
        """Start one member."""
        client, peer = f"http://127.0.0.1:{self.ports[name]}", self._peer_urls[name]
        options = {
            "name": name,
            "data-dir": name,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"{each}={url}" for each, url in self._peer_urls.items()),
            "initial-cluster-token": "bench",
            "logger": "zap",
            "log-level": "warn",
        }
        self.processes.start(name, ["etcd", *(f"--{option}={value}" for option, value in options.items())])

    def settled(self) -> str | None:
        """Return who leads, or None unless every member is up, follows the same one and has applied the same."""
        views: list[Any] = [
            asked(port, wire.request("/v3/maintenance/status", b"{}", {})) for port in self.ports.values()
        ]
        if not all(views):
            return None
        ids = {view["header"]["member_id"]: name for name, view in zip(self.ports, views, strict=True)}
        same = {(view.get("leader"), view["raftTerm"], view["raftAppliedIndex"]) for view in views}
        return ids.get(views[0].get("leader")) if len(same) == 1 else None

    def change(self) -> bytes:
        """Return the request of a fresh change."""
        return self._dialect.request(list(islice(self._fresh, 1)))

    def accepted(self, answer: wire.Answer) -> bool:
        """Return whether the change was carried out."""
        return self._dialect.accepted(answer, 1)


@contextmanager
def running(folder: Path) -> Iterator[Members]:
    """Start three members; leave none behind, whatever happens."""
    folder.mkdir()
    members = Members(folder)
    try:
        for name in NAMES:
            members.start(name)
        leader_of(members)
        yield members
    finally:
        members.processes.stop()
