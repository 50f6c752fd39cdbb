"""A leader's view of its peers: up to where their logs equal its own, what to send next, and whether it counts."""

from collections.abc import Collection, Iterator, Mapping

from cluster.frames import Alive, Append, Conflict, Matched
from cluster.franchise import Franchise
from cluster.log_store import LogStore
from cluster.window import Window


class Progress:
    """One peer, within one leadership.

    What was acknowledged over an earlier link was true then. A voter whose store has gone back meanwhile does not hold
    it any more, and may not even know; so on each new link it counts for nothing until it has matched all that is
    remembered. Usually that is one round trip. As *heard* it counts all the same: the leader holds what the voter has
    lost, so that to depose it over that would put at risk what the rule is to save.

    Attributes:
        matched: the peer's log is known to equal the leader's up to here, as said over its current link; 0 = nothing is
            known yet.
        next_index: the entry to send next.
    """

    def __init__(self) -> None:
        self.matched, self.next_index, self._window = 0, 1, Window()
        self._remembered = 0

    @property
    def counted(self) -> int:
        """How much of what is matched counts."""
        return self.matched if self.matched >= self._remembered else 0

    def lead(self, last_index: int) -> None:
        """A leadership begins over a log that ends there, or another disk is linked: nothing is known yet."""
        self.matched = self._remembered = 0
        self.linked(last_index)

    def linked(self, last_index: int) -> None:
        """A new link is up: what was on its way over an older one is lost, and what was acknowledged may be."""
        self._window.clear()
        self._remembered, self.matched = max(self._remembered, self.matched), 0
        self.next_index = (self._remembered or last_index) + 1

    def acknowledged(self, index: int) -> None:
        """The peer holds everything up to an index; words that come late never take anything back."""
        self.matched = max(self.matched, index)
        self.next_index = max(self.next_index, self.matched + 1)
        self._window.acknowledged(index)

    def contradicted(self, hint: int) -> None:
        """The peer lacks what lies before a batch, and says where to try next: never forward, nor below the match."""
        self.next_index = max(self.matched + 1, 2, min(self.next_index, hint))
        self._window.clear()

    def batches(self, log: LogStore) -> Iterator[Append]:
        """Yield, as on their way, what may be sent now; at least one, be it empty."""
        for batch in self._window.batches(log, self.next_index):
            yield batch
            self.next_index += len(batch.entries)


class Followers:
    """All peers of a voter. Everybody is sent the log and heard; only who has the franchise counts."""

    def __init__(self, peers: Collection[str], franchise: Franchise) -> None:
        """Begin without knowing anything of any."""
        self._franchise = franchise
        self._progress = {peer: Progress() for peer in peers}

    def __getitem__(self, peer: str) -> Progress:
        return self._progress[peer]

    def lead(self, last_index: int) -> None:
        """A leadership begins over a log that ends there."""
        for progress in self._progress.values():
            progress.lead(last_index)

    def link_up(self, peer: str, disk_id: str, last_index: int) -> None:
        """A new link is up; another disk than before has acknowledged nothing."""
        progress = self._progress[peer]
        if self._franchise.link_up(peer, disk_id):
            progress.lead(last_index)
        progress.linked(last_index)

    def answered(self, peer: str, answer: Matched | Conflict | Alive) -> bool:
        """Take an answer to this leadership; return whether it counts as heard."""
        progress = self._progress[peer]
        match answer:
            case Matched(index=index):
                progress.acknowledged(index)
            case Conflict(next_index=hint):
                progress.contradicted(hint)
            case Alive():
                pass
        return self.counts(peer)

    def counts(self, peer: str) -> bool:
        """Whether a peer's acknowledgements count."""
        return self._franchise.counts(peer, self._progress[peer].matched)

    def counted(self) -> Mapping[str, int]:
        """Return up to where each peer's log counts for commit; 0 = nowhere."""
        return {peer: each.counted if self.counts(peer) else 0 for peer, each in self._progress.items()}
