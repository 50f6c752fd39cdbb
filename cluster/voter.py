"""PySyncObj as a step machine, with the guards without which it loses acknowledged commands.

The only file that touches the library's private names; `cluster/audit.py` lists them. Which hazard each guard
closes stands in the table of `cluster/DESIGN.md` (letters as there).
"""

# ruff: noqa: N802, N803, SLF001 - the library's own names are read, called and replaced here

from collections.abc import Collection, Sequence

from pysyncobj import SyncObj

from cluster.checkpoint_store import CheckpointStore
from cluster.elections import Elections, View
from cluster.following import judge
from cluster.frames import Alive, Append, Conflict, Consensus, Matched, RequestVote, TimeoutNow, Vote, WouldVote
from cluster.franchise import Franchise
from cluster.handover import NOBODY, Handover
from cluster.intake import append_queued
from cluster.library import CANDIDATE, FOLLOWER, LEADER, ROLES, Peer, Post, Wire, configuration
from cluster.log_store import LogStore
from cluster.outcome import FailStop, Why
from cluster.pace import News, due
from cluster.ports import Clock, Timing
from cluster.progress import Followers
from cluster.proposals import Proposals


class Voter(SyncObj):  # type: ignore[misc]  # the library carries no types
    """One voter: messages and time in; log entries, messages and applied commands out.

    Everything runs inside `library.borrowed`, from one thread, never re-entered. What it claims in a message is
    true once `log.sync()` has returned, so the caller holds messages back until then.

    Attributes:
        handover: the wish to be followed by another voter; a caller may begin it.
    """

    _SyncObj__connectedNodes: set[Peer]
    _SyncObj__lastResponseTime: dict[Peer, float]
    _SyncObj__newAppendEntriesTime: float
    _SyncObj__raftCommitIndex: int
    _SyncObj__raftCurrentTerm: int
    _SyncObj__raftElectionDeadline: float
    _SyncObj__raftLastApplied: int
    _SyncObj__raftLeader: Peer | None
    _SyncObj__raftMatchIndex: dict[Peer, int]
    _SyncObj__raftState: int
    _SyncObj__votedForNodeId: str | None

    def __init__(
        self,
        *,
        name: str,
        members: Sequence[str],
        log: LogStore,
        checkpoint: CheckpointStore,
        franchise: Franchise,
        proposals: Proposals,
        post: Post,
        clock: Clock,
        timing: Timing,
    ) -> None:
        """Continue from what the disk says (`library.borrowed` has lent the log to the constructor)."""
        self._log, self._checkpoint, self._franchise = log, checkpoint, franchise
        self._proposals, self._post = proposals, post
        self._now_s, self._timing = clock.mono_s, timing
        self._peers = {member: Peer(member, rank) for rank, member in enumerate(sorted(members))}
        own, peers = self._peers.pop(name), list(self._peers.values())
        self._elections = Elections(name, members, timing, self._SyncObj__generateRaftTimeout, clock.mono_s())
        self.handover, self._followers = Handover(len(members), timing), Followers(list(self._peers), franchise)
        self._news = News(timing.tick_s)
        log.set_commit(max(log.commit_index, checkpoint.applied_index))
        self._wire = Wire(post)
        super().__init__(own, peers, conf=configuration(timing), nodeClass=Peer, transport=self._wire)
        self._SyncObj__raftLastApplied = checkpoint.applied_index

    @property
    def role(self) -> str:
        """One of "leader", "follower" and "candidate"."""
        return ROLES[self._SyncObj__raftState]

    @property
    def term(self) -> int:
        """The current term; on disk once the log is synced."""
        return self._SyncObj__raftCurrentTerm

    @property
    def leader(self) -> str | None:
        """Who leads, as far as this voter has heard."""
        leader = self._SyncObj__raftLeader
        return None if leader is None else leader.id

    @property
    def unfinished(self) -> bool:
        """Whether another tick has work at once: entries to apply, or a lone voter's own to count."""
        alone = not self._peers and self._SyncObj__raftState == LEADER
        committed = min(self._SyncObj__raftCommitIndex, self._log.synced_index)
        return self._checkpoint.applied_index < (self._log.last_index if alone else committed)

    def tick(self, *, may_stand: bool, able: Collection[str]) -> None:
        """Let time act: elections, counting, applying, appending, sending.

        Args:
            may_stand: False keeps this voter from standing for election, however late it is.
            able: the peers that could elect and be elected, and so be handed leadership.
        """
        self._campaign(may_stand=may_stand)
        self._hand_over(able)
        for name, matched in self._followers.counted().items():
            self._SyncObj__raftMatchIndex[self._peers[name]] = matched
        self.doTick(0.0)
        self._tell_news()

    # ---- links

    def connected(self, name: str, disk_id: str) -> None:
        """A new link to a peer's disk is up; what an older one carried is lost, and another disk acknowledged nothing."""
        SyncObj._SyncObj__onNodeConnected(self, self._peers[name])
        self._followers.link_up(name, disk_id, self._log.last_index)
        self._news.forget()

    def disconnected(self, name: str) -> None:
        """The link to a peer ended."""
        SyncObj._SyncObj__onNodeDisconnected(self, self._peers[name])

    def refused(self, name: str) -> None:
        """The link to a peer is down and nobody listens at its address: if it led, somebody must now."""
        if (stand_s := self._elections.gone(name, self._view)) is not None:
            self._SyncObj__raftLeader, self._SyncObj__raftElectionDeadline = None, stand_s

    def deliver(self, name: str, term: int, message: Consensus) -> None:
        """Take one message of a peer's current link."""
        peer = self._peers[name]
        match message:
            case Append():
                self._on_append(peer, term, message)
            case RequestVote():
                self._on_request_vote(peer, term, message)
            case Vote():
                self._on_vote(peer, term)
            case Matched() | Conflict() | Alive():
                self._on_answer(peer, term, message)
            case WouldVote() if not self._franchise.named(name):
                pass
            case _:
                for answer in self._elections.hear(self._view, name, term, message):
                    self._answer(peer, answer)

    # ---- following (hazards A, S, R, M)

    def _on_append(self, leader: Peer, term: int, append: Append) -> None:
        if term < self._SyncObj__raftCurrentTerm:
            self._answer(leader, Alive())  # its frame carries our term: a stale leader steps down
            return
        if term > self._SyncObj__raftCurrentTerm:
            self._SyncObj__setCurrentTerm(term, None)
        elif self._SyncObj__raftState == LEADER:
            raise FailStop(f"{leader.id} leads term {term}, and so does this voter")
        self._SyncObj__setState(FOLLOWER)
        self.heed(leader.id)
        verdict = judge(append, self._log)
        if isinstance(verdict, Conflict):
            self._answer(leader, verdict)
            return
        self._log.take(verdict.fresh, verdict.truncate_from)
        self._log.equals(term, verdict.matched, append.commit_index)
        self._answer(leader, Matched(verdict.matched))
        self._SyncObj__raftCommitIndex = max(verdict.commit_index, self._SyncObj__raftCommitIndex)
        self._log.set_commit(self._SyncObj__raftCommitIndex)

    def _on_request_vote(self, candidate: Peer, term: int, request: RequestVote) -> None:
        verdict = self._elections.judge(self._view, candidate.id, term, request, self._SyncObj__votedForNodeId)
        if verdict is None:
            return
        if term > self._SyncObj__raftCurrentTerm:
            self._adopt(term)
        if isinstance(verdict, Vote):
            self._SyncObj__setCurrentTerm(term, candidate.id)
            self._postpone_election()
        self._answer(candidate, verdict)

    # ---- leading (hazards B, C, D, F)

    def _on_vote(self, voter: Peer, term: int) -> None:
        standing = self._SyncObj__raftState == CANDIDATE and term == self._SyncObj__raftCurrentTerm
        if standing and self._franchise.named(voter.id) and self._elections.voted(voter.id, term):
            self._SyncObj__onBecomeLeader()

    def _on_answer(self, peer: Peer, term: int, answer: Matched | Conflict | Alive) -> None:
        if term > self._SyncObj__raftCurrentTerm:
            self._adopt(term)
        if self._SyncObj__raftState != LEADER or term != self._SyncObj__raftCurrentTerm:
            return  # hazard B: an answer to an earlier leadership says nothing about this one
        if self._followers.answered(peer.id, answer):
            self._SyncObj__lastResponseTime[peer] = self._now_s()
        helps = self._log.first_index < self._followers[peer.id].next_index <= self._log.last_index
        if helps and not isinstance(answer, Alive):  # else only a snapshot does, or nothing is needed
            self._news.forget()

    def _SyncObj__onBecomeLeader(self) -> None:
        self._followers.lead(self._log.last_index)
        SyncObj._SyncObj__onBecomeLeader(self)
        self._log.sync()  # hazard D: the library counts its leader at once, so what it counts must be on disk

    def _SyncObj__sendAppendEntries(self) -> None:
        self._SyncObj__newAppendEntriesTime = self._now_s() + self._timing.heartbeat_s
        self._news.told(self._log.last_index, self._SyncObj__raftCommitIndex)
        for peer in self._peers.values():
            if peer in self._SyncObj__connectedNodes:
                for batch in self._followers[peer.id].batches(self._log):
                    self._answer(peer, batch)

    def progress(self) -> dict[str, tuple[int, int]]:
        """Tell a leader's view of each linked peer: how far the logs match, and its next entry."""
        linked = {peer.id: self._followers[peer.id] for peer in self._SyncObj__connectedNodes}
        return {name: (progress.matched, progress.next_index) for name, progress in linked.items()}

    @property
    def counting(self) -> frozenset[str]:
        """The linked peers whose acknowledgements count, if this voter leads."""
        return frozenset(peer.id for peer in self._SyncObj__connectedNodes if self._followers.counts(peer.id))

    def _tell_news(self) -> None:
        """Send when the log grew, the commit index moved, or a peer needs other entries."""
        news = (self._log.last_index, self._SyncObj__raftCommitIndex)
        if self._SyncObj__raftState == LEADER and self._news.due(*news, self._now_s()):
            self._SyncObj__sendAppendEntries()

    def _checkCommandsToApply(self) -> None:
        """Hazard I: nothing is forwarded and nothing waits for a leader; a refused command is in no log."""
        if self._SyncObj__raftState != LEADER or self.handover.holds:
            self._proposals.refuse(Why.NOT_LEADER)
        else:
            append_queued(self._proposals, self._log, self._checkpoint, self._SyncObj__raftCurrentTerm)

    # ---- terms, states, time (hazard G)

    def _adopt(self, term: int) -> None:
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None

    def _SyncObj__setState(self, newState: int) -> None:
        was = self._SyncObj__raftState
        SyncObj._SyncObj__setState(self, newState)
        if was == LEADER != newState:
            self._postpone_election()
            self._proposals.leadership_lost()

    def _postpone_election(self) -> None:
        self._SyncObj__raftElectionDeadline = self._now_s() + self._SyncObj__generateRaftTimeout()

    @property
    def _view(self) -> View:
        deadline_s, answered_s = self._SyncObj__raftElectionDeadline, tuple(self._SyncObj__lastResponseTime.values())
        end, entitled = (self._log.last_term, self._log.last_index), self._log.entitled and self._franchise.entitled
        return View(self.role, self.term, *end, self._now_s(), deadline_s, answered_s, entitled)

    def _campaign(self, *, may_stand: bool) -> None:
        turn = self._elections.turn(self._view, may_stand=may_stand)
        self._SyncObj__raftElectionDeadline, self._wire.bidden = turn.deadline_s, turn.bidden
        if turn.canvass is not None:
            self._SyncObj__raftLeader = None
            for peer in self._peers.values():
                self._answer(peer, turn.canvass)

    def _hand_over(self, able: Collection[str]) -> None:
        matched = {name: self._followers[name].matched for name in self.counting.intersection(able)}
        heir = self.handover.heir(self._view, matched, applied_index=self._SyncObj__raftLastApplied)
        if heir is NOBODY:
            self.resign()
        elif heir is not None:
            self._answer(self._peers[heir], TimeoutNow())

    def resign(self) -> None:
        """Step down if leading or standing, and let another voter win."""
        if self._SyncObj__raftState != FOLLOWER:
            self._SyncObj__setState(FOLLOWER)
            self._SyncObj__raftLeader = None
            self._SyncObj__raftElectionDeadline += self._timing.raft_max_s  # everybody else is earlier

    def heed(self, name: str) -> None:
        """Know who leads, whether or not this voter can follow now."""
        self._elections.heard(name, self._now_s())
        self._SyncObj__raftLeader = self._peers[name]
        self._postpone_election()

    # ---- applying (hazards J, V, D)

    def _SyncObj__applyLogEntries(self) -> bool:
        """Apply committed entries that this disk holds; the index advances before anybody learns of it."""
        last = min(self._SyncObj__raftCommitIndex, self._log.synced_index)
        for entry in due(self._log, self._SyncObj__raftLastApplied, last):
            result = self._checkpoint.apply(entry)
            self._SyncObj__raftLastApplied = entry.index
            self._proposals.applied(entry, result)
        return False

    def installed(self) -> None:
        """Go on from a snapshot that both stores hold now."""
        self._SyncObj__raftCommitIndex = self._log.commit_index
        self._SyncObj__raftLastApplied = self._checkpoint.applied_index

    def _SyncObj__tryLogCompaction(self) -> None:
        """Hazards L1, L2: no compaction and no snapshot of the library's ever runs."""

    def _answer(self, peer: Peer, message: Consensus) -> None:
        self._post(peer.id, self._SyncObj__raftCurrentTerm, message)
