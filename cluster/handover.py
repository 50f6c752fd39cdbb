"""How a leader lays leadership in another voter's hands: finish, let it catch up, bid it stand, and only then go."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from cluster.elections import View
from cluster.ports import Timing


class Nobody(Enum):
    """Too few voters are linked to elect anybody: a handover cannot succeed."""

    NOBODY = "nobody"


NOBODY: Final = Nobody.NOBODY


class Handover:
    """A leader's wish to be followed by another voter. While it holds, nothing more is appended."""

    def __init__(self, voters: int, timing: Timing) -> None:
        """Begin without the wish, in a cluster of so many voters."""
        self._majority, self._again_s = voters // 2 + 1, timing.raft_min_s
        self._bid_s = float("-inf")
        self.holds = False

    def begin(self) -> None:
        """Wish it. Idempotent."""
        if not self.holds:
            self.holds, self._bid_s = True, float("-inf")

    def heir(self, view: View, matched: Mapping[str, int], *, applied_index: int) -> str | Nobody | None:
        """Return whom to bid stand now, if anybody.

        The most caught-up voter, the first by name among equals, and only once it holds the whole log: it would lose
        otherwise. One that does not win within the shortest timeout is asked again, or the next best one is.

        Args:
            view: of the leader.
            matched: of each linked peer, the index up to which its log is known to equal the leader's.
            applied_index: how far the leader has applied; at the end of its log nothing is pending.
        """
        self.holds = self.holds and view.role == "leader"  # it ends with leadership, one way or the other
        if not self.holds:
            return None
        if not matched or 1 + len(matched) < self._majority:
            return NOBODY
        best = max(sorted(matched), key=lambda peer: matched[peer])
        drained = applied_index == view.last_index == matched[best]
        if not drained or view.now_s < self._bid_s + self._again_s:
            return None
        self._bid_s = view.now_s
        return best
