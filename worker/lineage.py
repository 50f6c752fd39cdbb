"""Which cluster, and which generation of it, a ledger has worked for; and what that makes of an owner's answer. Pure."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a ledger knows of its owners.

    Attributes:
        cluster_id: of the cluster whose owner answered its first poll, "" before.
        generation: the highest that an owner of it named, 0 before the first.
    """

    cluster_id: str = ""
    generation: int = 0


class Kin(Enum):
    """What an owner is to a ledger."""

    SAME = "same"
    LATER = "later"  # the first one, or after a restore: what was not consumed before is never launched
    EARLIER = "earlier"  # out of an image that was not declared as restored, or long replaced: ignored
    FOREIGN = "foreign"  # of another cluster: refused for ever


def kin_of(known: Lineage, heard: Lineage) -> Kin:
    """Return what the owner of one lineage is to a ledger that knows another."""
    if known.cluster_id not in {"", heard.cluster_id}:
        return Kin.FOREIGN
    if heard.generation < known.generation:
        return Kin.EARLIER
    return Kin.SAME if heard == known else Kin.LATER
