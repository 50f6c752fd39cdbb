"""What a voter says of itself to every peer: first thing on a link, and again in each period."""

from typing import Final

from cluster.checkpoint_store import CheckpointStore
from cluster.frames import Digests, Standing
from cluster.log_store import LogStore
from cluster.outbox import Outbox
from cluster.ports import Clock

PERIOD_S: Final = 1.0


class Introductions:
    """Where this voter's log ends, which version it can apply, and what its state is."""

    def __init__(self, log: LogStore, checkpoint: CheckpointStore, outbox: Outbox, clock: Clock) -> None:
        """Begin with everything due at once."""
        self._log, self._checkpoint, self._outbox, self._clock = log, checkpoint, outbox, clock
        self._due_mono_s = clock.mono_s()

    def come_due(self) -> bool:
        """Whether everybody is to hear it now; if so, the next period begins."""
        now_s = self._clock.mono_s()
        if now_s < self._due_mono_s:
            return False
        self._due_mono_s = now_s + PERIOD_S
        return True

    def tell(self, peer: str, term: int) -> None:
        """Tell one peer, in the current term."""
        self._outbox.post(peer, term, Standing(self._log.last_index, self._checkpoint.supported_version))
        self._outbox.post(peer, term, Digests(self._checkpoint.claims()))
