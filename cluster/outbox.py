"""What wants to leave waits here until the commit that makes its claims true."""

from collections.abc import Mapping
from typing import Final

from cluster.frames import Append, Frame, Message, encode_frame
from cluster.ports import Clock, Link


class Outbox:
    """Messages of this tick, oldest first, each bound to the link that was up when it was written."""

    def __init__(self, links: Mapping[str, Link], clock: Clock) -> None:
        """Watch the current links of the replica."""
        self._links: Final = links
        self._clock: Final = clock
        self._waiting: list[tuple[Link, int, Message]] = []

    def post(self, peer: str, term: int, message: Message) -> None:
        """Let a message wait; without a link to the peer it is lost, as with any link that just ended."""
        link = self._links.get(peer)
        if link is not None:
            self._waiting.append((link, term, message))

    def release_early(self, applied_index: int) -> None:
        """Send the batches that no older message to the same peer holds back.

        A leader's batch claims nothing of the leader's own disk: it counts itself only after its own commit. The
        caller has made sure that term and vote are on disk.
        """
        held: list[tuple[Link, int, Message]] = []
        blocked: set[str] = set()
        for link, term, message in self._waiting:
            if isinstance(message, Append) and link.peer not in blocked:
                self._send(link, term, message, applied_index)
            else:
                blocked.add(link.peer)
                held.append((link, term, message))
        self._waiting = held

    def release(self, applied_index: int) -> None:
        """Send everything: the tick is committed."""
        waiting, self._waiting = self._waiting, []
        for link, term, message in waiting:
            self._send(link, term, message, applied_index)

    def _send(self, link: Link, term: int, message: Message, applied_index: int) -> None:
        """Send, unless the link ended meanwhile: a message never moves to another connection."""
        if self._links.get(link.peer) is link:
            link.send(encode_frame(Frame(link.session, term, self._clock.wall_ms(), applied_index, message)))
