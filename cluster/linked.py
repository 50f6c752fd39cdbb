"""The side of a node that its links see."""

import asyncio

from cluster.frames import Hello
from cluster.ports import Link
from cluster.replica import Replica


class Linked:
    """What comes over links goes to the replica, and wakes whoever ticks it."""

    def __init__(self, replica: Replica) -> None:
        """Stand before a replica."""
        self._replica = replica
        self._wake = asyncio.Event()

    def hello(self, nonce: bytes) -> bytes:
        """Return the first frame for a new link; `nonce` is 16 random bytes, fresh for it."""
        return self._replica.hello(nonce)

    def objection(self, hello: Hello) -> str | None:
        """Return why this voter will not speak with who sent this hello, in words for both logs; None if it will."""
        return self._replica.objection(hello)

    def connected(self, link: Link) -> None:
        """A link is up, both hellos checked; an older link of the same peer counts as ended."""
        self._replica.connected(link)
        self._wake.set()

    def received(self, link: Link, frame: bytes) -> None:
        """A frame came in."""
        self._replica.received(link, frame)
        self._wake.set()

    def disconnected(self, link: Link) -> None:
        """A link ended."""
        self._replica.disconnected(link)
        self._wake.set()

    def refused(self, peer: str) -> None:
        """A fresh connection to a peer's address was refused, now that its link has ended: no process is there."""
        self._replica.refused(peer)
        self._wake.set()
