"""What the bench asks of a cluster, whichever system it is: who leads, and a change that anybody may make."""

import asyncio
import http.client
import json
from collections.abc import Mapping
from typing import Any, Protocol

from bench import wire
from bench.processes import Processes

PATIENCE_S = 2.0


class Cluster(Protocol):
    """Three members on loopback."""

    title: str
    processes: Processes

    @property
    def ports(self) -> Mapping[str, int]:
        """Where each member answers, by name."""
        ...

    def start(self, name: str) -> None:
        """Start one member."""
        ...

    def settled(self) -> str | None:
        """Return who leads, or None unless every member is up, linked and caught up."""
        ...

    def change(self) -> bytes:
        """Return the request of a fresh change, fit for every member."""
        ...

    def accepted(self, answer: wire.Answer) -> bool:
        """Return whether the change was carried out."""
        ...


def leader_of(cluster: Cluster) -> str:
    """Return who leads, once the cluster has settled."""
    return cluster.processes.wait_for(f"{cluster.title} to settle", cluster.settled)


def asked(port: int, raw: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return what a member answers as JSON, or None while it does not answer with success."""
    try:
        answer = asyncio.run(_in_time(port, raw))
    except (OSError, wire.Torn):  # TimeoutError is one
        return None
    return json.loads(answer.body) if answer.status == http.client.OK else None


async def _in_time(port: int, raw: bytes) -> wire.Answer:
    async with asyncio.timeout(PATIENCE_S):
        return await wire.ask(port, raw)
