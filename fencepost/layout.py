"""What a new cluster's folder holds, as text and names; decides, writes nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.address import bracketed

LOOPBACK: Final = "127.0.0.1"
VOTERS: Final = (1, 3, 5)
MAX_WORKERS: Final = 100
ADMISSION_OFFSET: Final = 100
MANAGEMENT_OFFSET: Final = 200
SLOTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The names, addresses and texts of one cluster.

    Attributes:
        hosts: host of each voter that is not on loopback.
    """

    cluster_id: str
    voters: int
    workers: int
    base_port: int
    hosts: Mapping[str, str]

    def voter_names(self) -> tuple[str, ...]:
        """Return `node1`, `node2`, …."""
        return tuple(f"node{i}" for i in range(1, self.voters + 1))

    def worker_names(self) -> tuple[str, ...]:
        """Return `worker1`, `worker2`, …."""
        return tuple(f"worker{i}" for i in range(1, self.workers + 1))

    def credentials(self) -> tuple[str, ...]:
        """Return the holders of a credential, each in `credentials/NAME.token`."""
        return ("cluster", "operator", "recovery", *self.worker_names())

    def data_folders(self) -> tuple[str, ...]:
        """Return the names under `data/`."""
        return (*self.voter_names(), *self.worker_names())

    def files(self) -> dict[str, str]:
        """Return each configuration file's name and text."""
        first = {"worker1": "worker.toml"}
        return {
            **{f"{name}.toml": self._node(i, name) for i, name in enumerate(self.voter_names(), start=1)},
            **{first.get(name, f"{name}.toml"): self._worker(name) for name in self.worker_names()},
            "operator.toml": self._client("operator"),
            "recovery.toml": self._client("recovery"),
        }

    def _node(self, index: int, name: str) -> str:
        host = bracketed(self.hosts.get(name, LOOPBACK))
        port = self.base_port + index
        lines = [
            f'name = "{name}"',
            f'cluster_id = "{self.cluster_id}"',
            f'data_dir = "data/{name}"',
            "",
            "[listen]",
            f'cluster = "{host}:{port}"',
            f'admission = "{host}:{port + ADMISSION_OFFSET}"',
            f'management = "{LOOPBACK}:{port + MANAGEMENT_OFFSET}"',
            "",
            "[voters]",
            *(f'{voter} = "{self._url(i, 0)}"' for i, voter in enumerate(self.voter_names(), start=1)),
            "",
            "[admission]",
            f"urls = {self._urls(ADMISSION_OFFSET)}",
            "",
            "[credentials]",
            f'cluster = "{_token_file("cluster")}"',
            *_principal("operator", "operator"),
            *_principal("recovery", "recovery"),
        ]
        for worker in self.worker_names():
            lines += [*_principal(worker, "worker"), 'pools = ["default"]']
        return "\n".join(lines) + "\n"

    def _worker(self, name: str) -> str:
        lines = [
            f'name = "{name}"',
            'pools = ["default"]',
            f"slots = {SLOTS}",
            f'data_dir = "data/{name}"',
            f"admission_urls = {self._urls(ADMISSION_OFFSET)}",
            f'credential = "{_token_file(name)}"',
        ]
        return "\n".join(lines) + "\n"

    def _client(self, name: str) -> str:
        urls = [f"http://{LOOPBACK}:{self.base_port + i + MANAGEMENT_OFFSET}" for i in range(1, self.voters + 1)]
        return f'management_urls = {json.dumps(urls)}\ncredential = "{_token_file(name)}"\n'

    def _url(self, index: int, offset: int) -> str:
        host = self.hosts.get(f"node{index}", LOOPBACK)
        return f"http://{bracketed(host)}:{self.base_port + index + offset}"

    def _urls(self, offset: int) -> str:
        return json.dumps([self._url(i, offset) for i in range(1, self.voters + 1)])


def _token_file(holder: str) -> str:
    return f"credentials/{holder}.token"


def _principal(name: str, role: str) -> tuple[str, ...]:
    return ("", "[[principal]]", f'name = "{name}"', f'role = "{role}"', f'file = "{_token_file(name)}"')
