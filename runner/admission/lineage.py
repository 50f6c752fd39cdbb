"""Which lineage a worker's ledger belongs to, and whether this owner may answer it at all. Pure."""

from typing import Protocol

from runner.checkpoint.records import Head


class LineageRefused(Exception):
    """The worker's ledger belongs to another cluster, or to a later generation than this owner's. Nothing was done."""


class Spoken(Protocol):
    """Any message of a worker: what its ledger knows of the owners that it has worked for."""

    @property
    def cluster_id(self) -> str:
        """The cluster whose owner answered this ledger first, "" before."""
        ...

    @property
    def generation(self) -> int:
        """The highest generation that an owner named to it, 0 before the first."""
        ...


def demand_lineage(head: Head, message: Spoken) -> None:
    """Return if this owner is of the lineage that the worker's ledger knows, or of a later one.

    An earlier owner, back from an image that nobody declared as restored, would believe and permit what the later
    lineage has settled otherwise.

    Raises:
        LineageRefused: in words for whoever operates the worker.
    """
    if message.cluster_id not in {"", head.cluster_id}:
        raise LineageRefused(
            f"this worker's ledger belongs to cluster {message.cluster_id}, and this is cluster {head.cluster_id}:"
            " give it the admission URLs of its own cluster, or a data directory of its own for this one"
        )
    if message.generation > head.generation:
        raise LineageRefused(
            f"this worker has worked for generation {message.generation} of the cluster, and this owner is of"
            f" generation {head.generation}: an older image is running here without having been restored;"
            " stop its voters, or restore them as a new generation"
        )
