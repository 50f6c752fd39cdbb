"""Who is linked to this voter now, and what each peer last said of itself."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from cluster.frames import Conflict, Frame, Full, Matched, Standing
from cluster.ports import Link, PeerClock, PeerStatus

INITIAL_INDEX: Final = 1  # of the entry that every log begins with
_ALONE: Final = 1 << 32  # without peers nobody holds a version back


@dataclass(slots=True)
class _Heard:
    """The newest words of one peer, over this link or an earlier one."""

    clock: PeerClock | None = None
    applied_index: int = INITIAL_INDEX
    at_genesis: bool = False  # as said over the current link
    version: int = 0  # the highest that it can apply, as said over the current link
    full: bool = False  # its last answer over the current link took nothing, for want of space


class Roster:
    """The fixed peers of one voter.

    Attributes:
        links: the current link of each linked peer.
    """

    def __init__(self, peers: Collection[str]) -> None:
        self._heard = {peer: _Heard() for peer in sorted(peers)}
        self.links: dict[str, Link] = {}

    def knows(self, link: Link) -> bool:
        """Whether the other end is a member."""
        return link.peer in self._heard

    def current(self, link: Link) -> bool:
        """Whether this is the peer's newest link; what comes over any other is dropped."""
        return self.links.get(link.peer) is link

    def link_up(self, link: Link) -> None:
        """Note a peer's new link; the caller has taken down an older one."""
        self.links[link.peer] = link

    def link_down(self, link: Link) -> None:
        """Forget a peer's link, and with it what only holds of a linked peer."""
        del self.links[link.peer]
        heard = self._heard[link.peer]
        heard.at_genesis, heard.version, heard.full = False, 0, False

    def heard(self, peer: str, frame: Frame, seen_mono_s: float) -> None:
        """Note what a peer's frame says beside its message."""
        heard = self._heard[peer]
        heard.clock = PeerClock(peer, frame.wall_ms, seen_mono_s)
        heard.applied_index = frame.applied_index
        match frame.message:
            case Standing(last_index=last_index, version=version):
                heard.version = version
                heard.at_genesis = frame.term == 0 and last_index == INITIAL_INDEX
            case Full():
                heard.full = True
            case Matched() | Conflict():
                heard.full = False
            case _:
                pass

    def may_stand(self, term: int, last_index: int, named: Callable[[str], bool]) -> bool:
        """Whether a voter with such a log may call an election.

        Without history it may only if every peer is linked with its disk of the genesis (`named`) and has said over
        that link that it has none either: a cluster that has one must not be outvoted by empty disks.
        """
        return (term, last_index) != (0, INITIAL_INDEX) or all(
            peer in self.links and heard.at_genesis and named(peer) for peer, heard in self._heard.items()
        )

    def able(self) -> tuple[str, ...]:
        """Return the linked peers that are not known to be full: a full one neither votes nor leads."""
        return tuple(peer for peer, heard in self._heard.items() if peer in self.links and not heard.full)

    def common_version(self, counting: Collection[str]) -> int:
        """Return the highest version that every peer has announced over its link; 0 while one is not there, or counts not."""
        announced = (heard.version if peer in counting else 0 for peer, heard in self._heard.items())
        return min(announced, default=_ALONE)

    def clocks(self) -> tuple[PeerClock, ...]:
        """Return the newest wall clock of each peer heard."""
        return tuple(heard.clock for heard in self._heard.values() if heard.clock is not None)

    def statuses(self, suffrage: Callable[[str, str], str]) -> tuple[PeerStatus, ...]:
        """Return what is known of each peer; `suffrage` tells what the word of a linked one's disk is worth."""
        disks = {peer: self.links[peer].disk_id if peer in self.links else "" for peer in self._heard}
        return tuple(
            PeerStatus(peer, disk != "", self._heard[peer].applied_index, disk, suffrage(peer, disk) if disk else "")
            for peer, disk in disks.items()
        )
