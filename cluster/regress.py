"""A store that has gone back: what is still to be believed of it, and when its voter has a say again. Decided purely.

The side mark tells how far raft.db had come. One that holds less than that has lost transactions that it had synced: a
disk that lies about its cache, an older copy put back, a WAL that was cut or has rotted. So its voter may have
acknowledged entries and given votes that it does not know of.

- *Votes.* The term becomes the one of the mark, in which this voter counts as having voted, for itself. So it never
  votes twice in a term, and follows no leader of an earlier one.
- *Entries.* It has no say in elections until a leader L of a term T >= the mark's has found the log equal to its own up
  to an index m such that the entry at m is of T, m is at or behind what L said is committed, and (T, m) is at or past
  the mark. Then it lacks nothing that anybody counted upon: what it acknowledged and was committed before T stands in
  the log of L before the first entry of T (nobody was elected by a voter without a say, so every leader holds what is
  committed: Raft, 5.4.3), and what L itself committed with its help L had counted before it sent this batch, since on a
  new link a leader counts nothing that was acknowledged over an older one (`cluster/progress.py`).

To know the mark's index alone would not do: a mark may itself have missed the last entries, though never a term or a
vote. Nor need the mark's index be *committed*: where this voter led, its own last entries may be nobody's, and an idle
cluster would never get there.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Floor(NamedTuple):
    """How far a store had come before it went back; ordered as Raft orders the ends of logs.

    Attributes:
        term: the term then. What is lost is of this term or earlier ones.
        last_index: where the log ended then, as far as the mark knows.
    """

    term: int
    last_index: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What was true of raft.db when the mark was written.

    Attributes:
        syncs: how many transactions had changed log, term or vote.
        term: the current term.
        last_index: where the log ended.
        floor: what an earlier loss took and no leader has made good yet, or None.
    """

    syncs: int
    term: int
    last_index: int
    floor: Floor | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """What a voter may go on from.

    Attributes:
        term: the current term.
        voted_for: who has its vote in that term, None for nobody.
        floor: it has no say in elections before a leader has brought it past this, or None.
    """

    term: int
    voted_for: str | None
    floor: Floor | None


def went_back(mark: Mark, syncs: int) -> bool:
    """Whether a store of so many transactions lacks some that the mark knows of."""
    return syncs < mark.syncs


def claims_at_start(mark: Mark, *, syncs: int, term: int, voted_for: str | None, name: str) -> Claims:
    """Return what holds of a store at a start.

    Args:
        mark: the newest one.
        syncs: what the store says of itself, and so are the next two.
        term: the current term.
        voted_for: who has the vote of that term.
        name: this voter, who counts as having voted for itself where its vote may be lost.
    """
    if not went_back(mark, syncs):
        return Claims(term, voted_for, mark.floor)
    lost = Floor(mark.term, mark.last_index)
    floor = lost if mark.floor is None else max(lost, mark.floor)
    if mark.term > term:
        return Claims(mark.term, name, floor)
    return Claims(term, voted_for or name, floor)


def made_good(floor: Floor, *, leader_term: int, matched: int, matched_term: int, committed: int) -> bool:
    """Whether a leader has brought this voter past the floor.

    Args:
        floor: to get past.
        leader_term: of the leader, which is the current term and so not before the floor's.
        matched: the log equals the leader's up to this index.
        matched_term: term of the entry there.
        committed: up to where the leader said, over the current link, that the log is committed.
    """
    return matched_term == leader_term and matched >= committed and (matched_term, matched) >= floor


def trouble(floor: Floor) -> str:
    """Return why such a voter is not ready, in words for a person."""
    return (
        f"raft.db went back to an earlier state: it had come to entry {floor.last_index} in term {floor.term}, and lacks some"
        " of what it acknowledged; this voter follows, but has no say in elections until a leader has given it all of"
        " that again; if no leader comes though all other voters run, replace this voter's disk"
    )
