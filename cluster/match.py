"""Up to where a peer's log equals the leader's, and what the peer must show again before it counts.

What was acknowledged over an earlier link was true then. A voter whose store has gone back meanwhile does not hold it
any more, and may not even know; so on each new link it counts for nothing until it has matched all that is remembered.
Usually that is one round trip. As *heard* it counts all the same: the leader holds what the voter has lost, so that to
depose it over that would put at risk what the rule is to save.
"""


class Match:
    """One peer, within one leadership.

    Attributes:
        seen: its log is known to equal the leader's up to here, as said over its current link; only grows over it.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._remembered = 0

    def new_link(self) -> int:
        """Begin anew on another link; return what is remembered of earlier ones, 0 for nothing."""
        self._remembered, self.seen = max(self._remembered, self.seen), 0
        return self._remembered

    def acknowledged(self, index: int) -> None:
        """Take an acknowledgement, which takes nothing back if it comes late."""
        self.seen = max(self.seen, index)

    @property
    def counted(self) -> int:
        """How much of what is seen counts for commit and handover."""
        return self.seen if self.seen >= self._remembered else 0
