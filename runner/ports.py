"""What the runner asks of the cluster; `cluster.node.Node` fits."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from cluster.outcome import Applied
from cluster.ports import Leadership, PeerClock, Status

T = TypeVar("T")


class Node(Protocol):
    """One voter, seen from above: decisions become durable here, and nothing else does."""

    async def propose(self, command: bytes, within_s: float, version: int) -> Applied:
        """Commit one command that needs this cluster version; raises NotApplied or OutcomeUnknown, at the latest in time."""
        ...

    async def barrier(self) -> int:
        """Commit a no-op in the current term and return the applied index; raises as `propose`."""
        ...

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query against committed ticks of this voter's checkpoint."""
        ...

    def leadership(self) -> AsyncIterator[Leadership]:
        """Yield the current leadership, then each change: a hint, never a fence."""
        ...

    def status(self) -> Status:
        """Return this voter's own view of the cluster."""
        ...

    def clocks(self) -> tuple[PeerClock, ...]:
        """Return the newest wall clock heard from each peer."""
        ...

    def resign(self, why: str) -> None:
        """Step down if leader; nothing otherwise."""
        ...

    async def transfer(self, within_s: float) -> str | None:
        """Hand leadership over, if leader, within so many seconds, else lay it down; return who leads now."""
        ...
