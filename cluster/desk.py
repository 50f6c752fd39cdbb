"""The side of a replica that its callers see: what they ask for is queued or refused at once, and answered later."""

import math
from abc import ABC, abstractmethod

from cluster.checkpoint_store import CheckpointStore
from cluster.frames import CONFIGURE
from cluster.outcome import NotApplied, Why
from cluster.ports import Clock
from cluster.proposals import Answer, Proposals
from cluster.replacing import Scene, change_to
from cluster.room import Room
from cluster.upgrade import check_version
from cluster.voter import Voter


class Desk(ABC):
    """Takes proposals, on the parts of the replica that it belongs to."""

    _checkpoint: CheckpointStore
    _clock: Clock
    _proposals: Proposals
    _room: Room
    _voter: Voter
    _closed: bool
    _cut_short: bool
    _flushing: bool

    @abstractmethod
    def scene(self, *, queued: bool) -> Scene:
        """Return what a leader sees that is asked to have a disk replaced."""

    def propose(self, command: bytes, answer: Answer, within_s: float = math.inf, version: int = 1) -> None:
        """Queue a command; `answer` is called exactly once, from a later tick or from `close()`.

        With `within_s` it is answered at the first tick after that time, whatever is known then. A command of a later
        `version` than the cluster's is refused.

        Raises:
            NotApplied: it was not queued, and `answer` is never called.
        """
        self._refuse_unless_leading()
        check_version(version, self._checkpoint)
        self._proposals.offer(command, answer, self._clock.mono_s() + within_s)

    def barrier(self, answer: Answer) -> None:
        """Queue a no-op of the current term; answered as a proposal, with result None.

        Raises:
            NotApplied: it was not queued, and `answer` is never called.
        """
        self._refuse_unless_leading()
        self._proposals.offer_barrier(answer)

    def replace(self, name: str, disk_id: str, answer: Answer, within_s: float = math.inf) -> None:
        """Queue the entry that names another disk for a voter; answered as a proposal.

        Raises:
            NotApplied: it was not queued, and `answer` is never called.
        """
        self._refuse_unless_leading()
        change = change_to(name, disk_id, self.scene(queued=self._proposals.configuring))
        self._proposals.offer(change, answer, self._clock.mono_s() + within_s, CONFIGURE)

    def _refuse_unless_leading(self) -> None:
        if self._closed or (self._cut_short and not self._flushing):
            raise NotApplied(Why.CLOSED, "the voter is closed")
        if self._room.full:
            raise NotApplied(Why.STORE_FULL, str(self._room.trouble))
        if self._voter.role != "leader":
            raise NotApplied(Why.NOT_LEADER, f"{self._voter.leader or 'nobody'} leads as far as this voter knows")
