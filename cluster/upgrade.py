"""The cluster version: what every voter can apply, raised by a committed entry once each has said that it can.

A program of a later version may be on some voters before the others. It must not use what the others cannot apply:
they would stop. So commands of a version are taken only when that version is committed, and a program older than the
committed version does not start on this checkpoint.
"""

from collections.abc import Collection

from cluster.checkpoint_store import CheckpointStore
from cluster.outcome import NotApplied, Why
from cluster.proposals import Proposals
from cluster.roster import Roster


def offer_raise(proposals: Proposals, checkpoint: CheckpointStore, roster: Roster, counting: Collection[str]) -> None:
    """Queue the entry that raises the version, if every voter is linked, counts, and has announced a higher one.

    Repeated until it is applied; the version never falls, so a repeat changes nothing.
    """
    version = min(checkpoint.supported_version, roster.common_version(counting))
    if version > checkpoint.cluster_version:
        proposals.offer_raise(version)


def check_version(version: int, checkpoint: CheckpointStore) -> None:
    """Refuse a command that some voter may not be able to apply.

    Raises:
        NotApplied: its version is not the cluster's yet.
    """
    if version > checkpoint.cluster_version:
        detail = f"the cluster is at version {checkpoint.cluster_version} until every voter can apply {version}"
        raise NotApplied(Why.NOT_YET, detail)
