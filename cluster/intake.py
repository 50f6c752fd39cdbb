"""How queued proposals become entries of a leader's log."""

from cluster.log_store import LogStore
from cluster.proposals import Proposals


def append_queued(proposals: Proposals, log: LogStore, term: int) -> None:
    """Append what is queued, as much as one tick may."""
    for proposal in proposals.take():
        index = log.last_index + 1
        log.append(proposal.command, index, term)
        proposals.appended(proposal, index, term)
