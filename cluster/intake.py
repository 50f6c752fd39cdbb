"""How queued proposals become entries of a leader's log: tried first, in the state that they will meet."""

from collections.abc import Sequence
from typing import Final

from cluster.checkpoint_store import CheckpointStore
from cluster.frames import REGULAR
from cluster.log_mirror import Entry
from cluster.log_store import LogStore
from cluster.outcome import FailStop
from cluster.proposals import Proposals

MAX_AHEAD: Final = 32
"""Entries appended and not applied yet, beyond which a batch waits: each must be tried again before the batch. More
concurrency than that is served by larger batches instead."""
MAX_AHEAD_BYTES: Final = 1 << 20


def append_queued(proposals: Proposals, log: LogStore, checkpoint: CheckpointStore, term: int) -> None:
    """Append what is queued and passes its trial, as much as one tick may; refuse what does not.

    Raises:
        FailStop: an entry that is in the log already fails: it cannot be taken back, and would stop its apply.
    """
    ahead = log.after(checkpoint.applied_index, MAX_AHEAD + 1)
    proposals.held = not _few(ahead)
    if not proposals.queued:
        return
    with checkpoint.trial() as trial:
        for entry in ahead:
            if entry.command[:1] == REGULAR and (fault := trial.fault(entry.command[len(REGULAR) :])):
                raise FailStop(f"entry {entry.index} passed its trial once and now fails: {fault}")
        for proposal in proposals.take():
            regular = proposal.command[:1] == REGULAR
            fault = trial.fault(proposal.command[len(REGULAR) :]) if regular else None
            if fault is not None:
                proposals.failed(proposal, fault)
                continue
            index = log.last_index + 1
            log.append(proposal.command, index, term)
            proposals.appended(proposal, index, term)


def _few(ahead: Sequence[Entry]) -> bool:
    return len(ahead) <= MAX_AHEAD and sum(len(entry.command) for entry in ahead) <= MAX_AHEAD_BYTES
