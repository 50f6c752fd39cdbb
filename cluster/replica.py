"""One voter as a step machine: events are queued, `tick()` decides, stores, and only then speaks.

No asyncio, thread or timer in here: a simulator drives it on virtual time exactly as `cluster/node.py` does.
"""

import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import DEFAULT_BOUNDS, Bounds
from cluster.events import Came, Down, Event, HandOver, Refused, Resign, Up
from cluster.frames import PROTOCOL_VERSION, Consensus, Hello, Malformed, Standing, decode_frame, encode_hello
from cluster.installing import settle_pair
from cluster.journal import JournalFace
from cluster.library import borrowed
from cluster.log_store import LogStore
from cluster.outbox import Outbox
from cluster.outcome import FailStop, NotApplied, Why
from cluster.ports import Clock, Identity, Leadership, Link, PeerClock, PeerStatus, Randomness, Status, Timing
from cluster.proposals import Answer, Proposals
from cluster.roster import INITIAL_INDEX, Roster
from cluster.unfailing import Unfailing
from cluster.upkeep import Upkeep
from cluster.voter import Voter

T = TypeVar("T")

STANDING_PERIOD_S: Final = 1.0  # how often every peer hears where this voter stands


class Replica:
    """One voter between its links, its two stores and its callers.

    Attributes:
        refused_frames: frames dropped as malformed or of another session, since the start.
    """

    def __init__(
        self,
        identity: Identity,
        log: LogStore,
        checkpoint: CheckpointStore,
        *,
        clock: Clock,
        randomness: Randomness,
        timing: Timing,
        executor: Executor,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Continue from what the stores hold, which `close()` closes; the executor is the caller's to end after it.

        Raises:
            Unfit: the checkpoint does not belong to the log; nothing was changed.
        """
        settle_pair(log, checkpoint)
        self.identity: Final = identity
        self.refused_frames = 0
        self._log, self._checkpoint = log, checkpoint
        self._clock, self._randomness = clock, randomness
        self._inbox: deque[Event] = deque()
        self._roster = Roster([member for member in identity.members if member != identity.name])
        self._outbox = Outbox(self._roster.links, clock)
        self._proposals = Proposals()
        self._standing_due_mono_s = clock.mono_s()
        self._cut_short = self._closed = False
        with borrowed(clock, randomness, JournalFace(log)):
            self._voter = Voter(
                name=identity.name,
                members=sorted(identity.members),
                log=log,
                checkpoint=checkpoint,
                proposals=self._proposals,
                post=self._outbox.post,
                clock=clock,
                timing=timing,
            )
        self._upkeep = Upkeep(
            identity, log, checkpoint, self._voter, self._outbox.post, clock=clock, executor=executor, bounds=bounds
        )

    # ---- events; each only queues

    def connected(self, link: Link) -> None:
        """A link is up: both ends checked each other's hello. It replaces an older link of the same peer."""
        self._inbox.append(Up(link))

    def received(self, link: Link, frame: bytes) -> None:
        """A frame came in over a link."""
        self._inbox.append(Came(link, frame, self._clock.mono_s()))

    def disconnected(self, link: Link) -> None:
        """A link ended."""
        self._inbox.append(Down(link))

    def resign(self) -> None:
        """Step down at the next tick, if leading then."""
        self._inbox.append(Resign())

    def hand_over(self) -> None:
        """Let another voter take over leadership, if leading at the next tick; nothing more is appended till then."""
        self._inbox.append(HandOver())

    def refused(self, peer: str) -> None:
        """No process listens at a peer's address: a fresh connection to it was refused."""
        self._inbox.append(Refused(peer))

    def propose(self, command: bytes, answer: Answer) -> None:
        """Queue a command; `answer` is called exactly once, from a later tick or from `close()`.

        Raises:
            NotApplied: it was not queued, and `answer` is never called.
        """
        self._refuse_unless_leading()
        self._proposals.offer(command, answer)

    def barrier(self, answer: Answer) -> None:
        """Queue a no-op of the current term; answered as a proposal, with result None.

        Raises:
            NotApplied: it was not queued, and `answer` is never called.
        """
        self._refuse_unless_leading()
        self._proposals.offer_barrier(answer)

    # ---- the tick

    def tick(self) -> bool:
        """Take one step; whatever claims durability leaves only after the commit that made it true.

        Returns:
            Whether there is work left that waits for nobody: tick again at once.

        Raises:
            FailStop: storage failed, an invariant is broken, or an earlier tick was cut short. Nothing was said
                that is not on disk; the process must end.
        """
        if self._cut_short or self._closed:
            raise FailStop("an earlier tick was cut short" if self._cut_short else "the voter is closed")
        self._cut_short = True
        with Unfailing("tick"):
            self._upkeep.before_tick()
            with borrowed(self._clock, self._randomness):
                self._take_inbox()
                self._say_standing()
                self._voter.tick(may_stand=not self._at_genesis or self._roster.all_at_genesis())
            if not self._log.claims_unsynced:
                self._outbox.release_early(self._checkpoint.applied_index)
            self._log.sync()
            self._checkpoint.commit()
            self._upkeep.after_commit()
            self._outbox.release(self._checkpoint.applied_index)
        self._cut_short = False
        with Unfailing("answering"):
            self._proposals.settle()
        return self._voter.unfinished or self._proposals.queued

    def _take_inbox(self) -> None:
        while self._inbox:
            self._take_event(self._inbox.popleft())

    def _take_event(self, event: Event) -> None:
        match event:
            case Came(link, frame, mono_s):
                if self._roster.current(link):
                    self._take_frame(link, frame, mono_s)
            case Up(link):
                self._take_link(link)
            case Down(link):
                if self._roster.current(link):
                    self._drop_link(link)
            case Resign():
                self._voter.resign()
            case HandOver():
                self._voter.handover.begin()
            case Refused(peer):
                if peer not in self._roster.links:  # else it is old news
                    self._voter.refused(peer)

    def _take_link(self, link: Link) -> None:
        if not self._roster.knows(link):
            link.close(f"{link.peer} is no member of this cluster")
            return
        older = self._roster.links.get(link.peer)
        if older is not None:
            self._drop_link(older)
        self._roster.link_up(link)
        self._voter.connected(link.peer)
        self._outbox.post(link.peer, self._voter.term, Standing(self._log.last_index))

    def _drop_link(self, link: Link) -> None:
        self._roster.link_down(link)
        self._voter.disconnected(link.peer)
        self._upkeep.link_down(link.peer)

    def _take_frame(self, link: Link, raw: bytes, mono_s: float) -> None:
        """Let one frame act; what no voter of this version and session would send changes nothing."""
        try:
            frame = decode_frame(raw)
        except Malformed:
            self.refused_frames += 1
            return
        if frame.session != link.session:
            self.refused_frames += 1
            return
        self._roster.heard(link.peer, frame, mono_s)
        if isinstance(frame.message, Consensus):
            self._voter.deliver(link.peer, frame.term, frame.message)
        self._upkeep.take(link.peer, frame)

    def _say_standing(self) -> None:
        if (now_s := self._clock.mono_s()) >= self._standing_due_mono_s:
            self._standing_due_mono_s = now_s + STANDING_PERIOD_S
            for peer in self._roster.links:
                self._outbox.post(peer, self._voter.term, Standing(self._log.last_index))

    # ---- between ticks, when memory and disk agree

    @property
    def _at_genesis(self) -> bool:
        return self._log.term == 0 and self._log.last_index == INITIAL_INDEX

    @property
    def leadership(self) -> Leadership:
        """Term and role; a hint, never a fence."""
        return Leadership(self._voter.term, self._voter.role)

    @property
    def leader(self) -> str | None:
        """Who leads, as far as this voter has heard; a hint too."""
        return self._voter.leader

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on the state of committed ticks, in one snapshot.

        Raises:
            NotApplied: the voter is closed.
        """
        if self._closed:
            raise NotApplied(Why.CLOSED, "the voter is closed")
        return self._checkpoint.read(query)

    def hello(self, nonce: bytes) -> bytes:
        """Return the first frame for a new link; `nonce` is 16 random bytes, fresh for it."""
        return encode_hello(
            Hello(
                version=PROTOCOL_VERSION,
                cluster_id=self.identity.cluster_id,
                generation=self.identity.generation,
                name=self.identity.name,
                disk_id=self.identity.disk_id,
                term=self._log.term,
                last_index=self._log.last_index,
                nonce=nonce,
            )
        )

    def clocks(self) -> tuple[PeerClock, ...]:
        """Return the newest wall clock of each peer heard."""
        return self._roster.clocks()

    def status(self) -> Status:
        """Return this voter's own view."""
        own = PeerStatus(self.identity.name, connected=True, applied_index=self._checkpoint.applied_index)
        return Status(
            name=self.identity.name,
            role=self._voter.role,
            term=self._voter.term,
            leader=self._voter.leader,
            commit_index=self._log.commit_index,
            applied_index=self._checkpoint.applied_index,
            last_index=self._log.last_index,
            digest=self._checkpoint.digest.hex(),
            voters=tuple(sorted((own, *self._roster.statuses()), key=lambda voter: voter.name)),
        )

    def close(self) -> None:
        """Answer everybody and close the stores. Idempotent.

        What was appended has an unknown outcome; what was only queued is applied nowhere.
        """
        if self._closed:
            return
        self._closed = True
        if self._cut_short:
            self._proposals.abandon()
        else:
            self._proposals.leadership_lost()
        self._proposals.refuse(Why.CLOSED)
        self._proposals.settle()
        self._checkpoint.close()
        self._log.close()

    def _refuse_unless_leading(self) -> None:
        if self._closed or self._cut_short:
            raise NotApplied(Why.CLOSED, "the voter is closed")
        if self._voter.role != "leader":
            raise NotApplied(Why.NOT_LEADER, f"{self._voter.leader or 'nobody'} leads as far as this voter knows")
