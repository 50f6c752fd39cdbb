"""When a voter stands for election and whom it lets win: pre-vote, stickiness, a leader that is gone.

Everything here is decided on what the voter shows in a `View`; `cluster/voter.py` carries it out.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from cluster.frames import Alive, ElectionWord, PreVote, RequestVote, TimeoutNow, Vote, WouldVote
from cluster.ports import Timing

STAGGER_S: Final = 0.08  # between the voters that see the same leader gone: the next one stands only if this one fails
RECANVASS_S: Final = 0.02  # a voter that has not noticed yet is asked again this soon


@dataclass(frozen=True, slots=True)
class View:
    """What a voter shows of itself. All times are of its monotonic clock.

    Attributes:
        role: "leader", "follower" or "candidate".
        term: its current term.
        last_term: term of its last log entry.
        last_index: index of its last log entry.
        now_s: the present.
        deadline_s: when it wants to stand for election, unless it leads.
        answered_s: when each peer last answered it as a leader.
        entitled: whether what its disk holds lets it have a say in elections; without that it gives no vote, says to
            nobody that it would, and does not stand, though it follows, acknowledges and adopts terms as any voter.
    """

    role: str
    term: int
    last_term: int
    last_index: int
    now_s: float
    deadline_s: float
    answered_s: tuple[float, ...] = ()
    entitled: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """What a voter does about elections in one tick.

    Attributes:
        deadline_s: when it wants to stand; in the past = now.
        canvass: what it asks everybody, if it does: would they vote for it?
        bidden: whether its leader asked for the candidacy that begins now: nobody needs to stick to that leader.
    """

    deadline_s: float
    canvass: PreVote | None = None
    bidden: bool = False


class Elections:
    """What one voter remembers between elections. Nothing of it is durable: a restarted voter begins anew."""

    def __init__(
        self, name: str, members: Collection[str], timing: Timing, timeout_s: Callable[[], float], now_s: float
    ) -> None:
        """Begin without a leader.

        Args:
            name: this voter.
            members: all voters, this one included.
            timing: Raft's lengths of time.
            timeout_s: draws the length of an election timeout.
            now_s: the monotonic clock.
        """
        self._name, self._members, self._timing, self._timeout_s = name, tuple(sorted(members)), timing, timeout_s
        self._majority = len(self._members) // 2 + 1
        self._votes: set[str] = set()
        self._votes_term = 0  # in which this voter stands, or stood last
        self._asked_term: int | None = None  # for which it asks the others whether they would vote
        self._backers: set[str] = set()
        self._bidden_term: int | None = None  # in which the leader bade this voter stand
        self._followed: str | None = None
        self._heard_s = float("-inf")
        self._gone_s: float | None = None  # when the leader followed was found gone
        self._last_turn_s = now_s

    # ---- what happens

    def heard(self, leader: str, now_s: float) -> None:
        """Note that a leader of the current term spoke: what this voter had in mind itself is off."""
        self._followed, self._heard_s, self._gone_s, self._asked_term = leader, now_s, None, None

    def gone(self, peer: str, view: View) -> float | None:
        """Note that a peer's link is down and that its address refuses connections: no process is there.

        Returns:
            When to stand, if it is the leader that this voter followed: at once, or after those before it in the
            order of names, so that two voters with the same news do not split the vote. None otherwise.
        """
        if peer != self._followed or view.role == "leader":
            return None
        self._gone_s = view.now_s
        before = sum(member < self._name for member in self._members if member != peer)
        return min(view.deadline_s, view.now_s + before * STAGGER_S)

    def hear(self, view: View, peer: str, term: int, word: ElectionWord) -> tuple[WouldVote | Alive, ...]:
        """Take one word about an election to come, written in `term`; return what to answer, if anything."""
        match word:
            case PreVote():
                return self._would_vote(view, term + 1, word)
            case WouldVote(term=asked_term):
                if asked_term == self._asked_term == view.term + 1:
                    self._backers.add(peer)
            case TimeoutNow():
                follows = view.role == "follower" and (peer, term) == (self._followed, view.term)
                if follows and view.entitled:  # an older bid does not wait for the say that it lacks
                    self._bidden_term = term
        return ()

    def judge(
        self, view: View, candidate: str, term: int, request: RequestVote, voted_for: str | None
    ) -> Vote | Alive | None:
        """Decide a candidate's request, written in `term`; None = it changes nothing.

        Args:
            view: of this voter.
            candidate: who asks.
            term: of the candidacy; any answer means that this voter adopts it, if it is later than its own.
            request: what it says of its log.
            voted_for: who has this voter's vote of its current term.

        Returns:
            The vote; or no claim but the term, for a candidate that cannot have it.
        """
        if term > view.term and not request.bidden and self.sticks(view):
            return None
        taken = term == view.term and voted_for not in {None, candidate}
        granted = view.entitled and term >= view.term and not taken and not _behind(request, view)
        return Vote() if granted else Alive()

    def voted(self, voter: str, term: int) -> bool:
        """Count a vote by its voter, however often it comes (hazard C); return whether a majority has voted."""
        if term != self._votes_term:
            self._votes_term, self._votes = term, set()
        self._votes.add(voter)
        return 1 + len(self._votes) >= self._majority

    # ---- what follows from it

    def sticks(self, view: View) -> bool:
        """Whether this voter has reason to keep its leader (itself, if it leads), whoever else asks for votes.

        It lapses early only on the voter's own evidence that the leader is gone; hearsay deposes nobody.
        """
        since_s = view.now_s - self._timing.raft_min_s
        if view.role == "leader":
            return 1 + sum(answered_s > since_s for answered_s in view.answered_s) >= self._majority
        return view.role == "follower" and self._gone_s is None and self._heard_s > since_s

    def turn(self, view: View, *, may_stand: bool) -> Turn:
        """Decide what to do in this tick; the library stands by itself once the deadline has passed.

        So the deadline never gets past this without leave: of a majority that would vote for this voter (else it
        would raise the term for nothing), or of its leader.
        """
        stalled = view.now_s - self._last_turn_s > self._timing.raft_min_s / 2
        self._last_turn_s = view.now_s
        if not may_stand or not view.entitled:
            self._bidden_term = self._asked_term = None
            return Turn(view.now_s + self._timeout_s())
        # After a stall, first read what came in meanwhile: an election on stale time helps nobody.
        deadline_s = max(view.deadline_s, view.now_s + self._timeout_s() / 2) if stalled else view.deadline_s
        if view.role == "leader":
            return Turn(deadline_s)
        canvass = None
        if deadline_s <= view.now_s and not self._has_leave(view):
            canvass = PreVote(view.last_index, view.last_term)
            deadline_s = self._canvass(view)
        if not self._has_leave(view):
            return Turn(deadline_s, canvass)
        bidden = self._bidden_term == view.term
        self._bidden_term = self._asked_term = None
        return Turn(float("-inf"), canvass, bidden)

    def _has_leave(self, view: View) -> bool:
        backed = self._asked_term == view.term + 1 and 1 + len(self._backers) >= self._majority
        return backed or self._bidden_term == view.term

    def _canvass(self, view: View) -> float:
        """Begin to ask for leave, of nobody but itself so far; return when to ask again."""
        self._asked_term = view.term + 1
        self._backers.clear()
        hurried = self._gone_s is not None and view.now_s < self._gone_s + self._timing.raft_max_s
        return view.now_s + (RECANVASS_S if hurried else self._timeout_s())

    def _would_vote(self, view: View, asked_term: int, asking: PreVote) -> tuple[WouldVote | Alive, ...]:
        if asked_term <= view.term:
            return (Alive(),)  # its frame carries our term, which the asker needs to know
        would = view.entitled and not (_behind(asking, view) or self.sticks(view))
        return (WouldVote(asked_term),) if would else ()


def _behind(asking: PreVote | RequestVote, view: View) -> bool:
    """Whether the asker's log lacks something that ours has (Raft, 5.4.1)."""
    return (asking.last_term, asking.last_index) < (view.last_term, view.last_index)
