"""What comes to a replica from outside: each event only queues, and the next tick takes it."""

from collections import deque

from cluster.events import Came, Down, Event, HandOver, Refused, Resign, Up
from cluster.ports import Clock, Link


class Inbox:
    """The events of one replica, in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        """Begin empty."""
        self._inbox: deque[Event] = deque()
        self._clock = clock

    def connected(self, link: Link) -> None:
        """A link is up: both ends checked each other's hello. It replaces an older link of the same peer."""
        self._inbox.append(Up(link))

    def received(self, link: Link, frame: bytes) -> None:
        """A frame came in over a link."""
        self._inbox.append(Came(link, frame, self._clock.mono_s()))

    def disconnected(self, link: Link) -> None:
        """A link ended."""
        self._inbox.append(Down(link))

    def resign(self) -> None:
        """Step down at the next tick, if leading or standing then."""
        self._inbox.append(Resign())

    def hand_over(self) -> None:
        """Let another voter take over leadership, if leading at the next tick; nothing more is appended till then."""
        self._inbox.append(HandOver())

    def refused(self, peer: str) -> None:
        """No process listens at a peer's address: a fresh connection to it was refused."""
        self._inbox.append(Refused(peer))
