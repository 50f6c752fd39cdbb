"""Whether all voters made the same of the same commands: digests compared at equal index, the odd one out stops.

The same log applied by the same program gives the same digest. A difference means a broken disk, memory or program, and
every answer of the voter that is wrong may be wrong. A majority is never stopped: it is what the cluster has decided.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from cluster.outcome import FailStop

EVERY: Final = 256  # entries between two digests that every voter keeps, so that voters under load share indices
KEPT: Final = 64  # of those, by each voter
MAX_INDICES: Final = 4 * KEPT  # remembered to compare, newest first

Claim = tuple[int, bytes]  # what a voter's digest was once it had applied everything up to an index


class Digests:
    """What each voter claimed its state to be, by index.

    Attributes:
        dispute: a difference that cannot be decided yet, in words for a person; None if there is none.
    """

    def __init__(self, name: str, members: Iterable[str]) -> None:
        """Compare for one voter."""
        self._name, self._members = name, frozenset(members)
        self._claims: dict[int, dict[str, bytes]] = {}
        self.dispute: str | None = None

    def heard(self, voter: str, claims: Iterable[Claim], leader: str | None) -> None:
        """Take what a voter (this one too) says of its own state, and compare.

        Raises:
            FailStop: this voter is the odd one out.
        """
        for index, digest in claims:
            self._claims.setdefault(index, {})[voter] = digest
        for index in sorted(self._claims)[:-MAX_INDICES]:
            del self._claims[index]
        self._compare(leader)

    def forget(self, voter: str) -> None:
        """Drop what a voter said over a link that is no more; it may come back with its state made anew."""
        for claims in self._claims.values():
            claims.pop(voter, None)

    def _compare(self, leader: str | None) -> None:
        self.dispute = None
        for index in sorted(self._claims):
            claims = self._claims[index]
            if len(set(claims.values())) < 2 or self._name not in claims:  # noqa: PLR2004 - a difference takes two
                continue
            others = _others(claims, self._name)
            if is_odd(claims, self._name, voters=len(self._members), leader=leader):
                raise FailStop(
                    f"this voter's state differs from that of {others} at entry {index}, and it is the odd one out;"
                    " move checkpoint.db away to have it made again from a whole log, or replace this voter's disk"
                )
            if not _has_majority(claims, self._name, len(self._members)):
                self.dispute = (
                    f"the state of this voter differs from that of {others} at entry {index}; who is right shows when"
                    f" {', '.join(sorted(self._members - claims.keys())) or 'a leader'} has said what it has"
                )


def is_odd(claims: Mapping[str, bytes], name: str, *, voters: int, leader: str | None) -> bool:
    """Return whether a voter must stop over what is claimed at one index.

    It must if a majority of all voters agrees on another digest; and if no majority can come about any more (whatever
    those say who have not spoken), if its own differs from the leader's.
    """
    mine = claims.get(name)
    if mine is None:
        return False
    counts, majority = Counter(claims.values()), voters // 2 + 1
    most, count = counts.most_common(1)[0]
    if count >= majority:
        return most != mine
    undecided = count + voters - len(claims) >= majority
    return not undecided and leader is not None and claims.get(leader, mine) != mine


def _others(claims: Mapping[str, bytes], name: str) -> str:
    """Return who differs from a voter, as a list in words."""
    return ", ".join(sorted(voter for voter, digest in claims.items() if digest != claims[name]))


def _has_majority(claims: Mapping[str, bytes], name: str, voters: int) -> bool:
    return Counter(claims.values())[claims[name]] >= voters // 2 + 1
