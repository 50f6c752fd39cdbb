"""One voter as a step machine: events are queued, `tick()` decides, stores, and only then speaks.

No asyncio, thread or timer in here: a simulator drives it on virtual time exactly as `cluster/node.py` does.
"""

import sqlite3
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from typing import TypeVar

from cluster import digests as compared
from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import DEFAULT_BOUNDS, Bounds
from cluster.desk import Desk
from cluster.events import Came, Down, Event, HandOver, Refused, Resign, Up
from cluster.frames import Append, Consensus, Digests, Frame, Full, Malformed, decode_frame_of
from cluster.franchise import Franchise
from cluster.inbox import Inbox
from cluster.installing import settle_pair
from cluster.journal import JournalFace
from cluster.library import borrowed
from cluster.log_store import LogStore
from cluster.outbox import Outbox
from cluster.outcome import FailStop, NotApplied, Why
from cluster.plausible import implausible
from cluster.ports import Clock, Identity, Link, Randomness, Timing
from cluster.profile import Profile
from cluster.proposals import Proposals
from cluster.room import FreeBytes, Room, boundless
from cluster.roster import Roster
from cluster.standing import Introductions
from cluster.unfailing import Unfailing
from cluster.upgrade import offer_raise
from cluster.upkeep import Upkeep
from cluster.voter import Voter

T = TypeVar("T")


class Replica(Inbox, Profile, Desk):
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
        free_bytes: FreeBytes = boundless,
    ) -> None:
        """Continue from what the stores hold, which `close()` closes; the executor is the caller's to end after it.

        Raises:
            Unfit: the checkpoint does not belong to the log; nothing was changed.
        """
        Inbox.__init__(self, clock)
        settle_pair(log, checkpoint)
        self.refused_frames = 0
        franchise = Franchise(identity, log, checkpoint)
        self._clock, self._randomness = clock, randomness
        roster = Roster([member for member in identity.members if member != identity.name])
        self._outbox = Outbox(roster.links, clock)
        self._proposals = Proposals()
        self._room = Room(free_bytes)
        self._digests = compared.Digests(identity.name, identity.members)
        self._introductions = Introductions(log, checkpoint, self._outbox, clock)
        self._cut_short = self._flushing = self._closed = False
        with borrowed(clock, randomness, JournalFace(log)):
            voter = Voter(
                name=identity.name,
                members=sorted(identity.members),
                log=log,
                checkpoint=checkpoint,
                franchise=franchise,
                proposals=self._proposals,
                post=self._outbox.post,
                clock=clock,
                timing=timing,
            )
        Profile.__init__(self, identity, log, checkpoint, voter, roster, franchise)
        self._upkeep = Upkeep(
            identity,
            log,
            checkpoint,
            voter,
            self._outbox.post,
            clock=clock,
            executor=executor,
            bounds=bounds,
            room=self._room,
            roster=roster,
            digests=self._digests,
        )

    # ---- the tick

    def tick(self) -> bool:
        """Take one step at once, flush included; returns and raises as `step`."""
        step = self.step()
        try:
            while True:
                next(step)()
        except StopIteration as end:
            return bool(end.value)

    def step(self) -> Generator[Callable[[], None], None, bool]:
        """Take one step; whatever claims durability leaves only after the commit that made it true.

        Yields at most once: a flush, for the caller to carry out, in any thread, before it goes on. Meanwhile events
        and proposals only queue, and nothing was said yet that is not on disk.

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
            self._room.look()
            self._upkeep.before_tick()
            self._proposals.expire(self._clock.mono_s())
            with borrowed(self._clock, self._randomness):
                while self._inbox:
                    self._take_event(self._inbox.popleft())
                self._say_standing()
                self._act()
            if not self._log.claims_unsynced:
                self._outbox.release_early(self._checkpoint.applied_index)
            if self._log.write():
                self._flushing = True
                yield self._log.flush
                self._flushing = False
                self._log.flushed()
            self._checkpoint.commit()
            self._upkeep.after_commit()
            self._outbox.release(self._checkpoint.applied_index)
        self._cut_short = False
        with Unfailing("answering"):
            self._proposals.settle()
        return (self._voter.unfinished and not self._room.full) or self._proposals.queued

    def _act(self) -> None:
        """Let the voter act on time and on what waits; on a full disk it begins nothing that must be written."""
        if self._room.full:
            self._voter.resign()  # and no tick: time finds it stalled once there is room again
            self._proposals.refuse(Why.STORE_FULL)
        else:
            may_stand = self._roster.may_stand(self._log.term, self._log.last_index, self._franchise.named)
            self._voter.tick(may_stand=may_stand, able=self._roster.able())

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
        stranger = None if self._roster.knows(link) else f"{link.peer} is no member of this cluster"
        if (why := stranger or self._franchise.refusal(link.peer, link.disk_id)) is not None:
            link.close(why)
            return
        if (older := self._roster.links.get(link.peer)) is not None:
            self._drop_link(older)
        self._roster.link_up(link)
        self._voter.connected(link.peer, link.disk_id)
        self._digests.forget(link.peer)
        self._introductions.tell(link.peer, self._voter.term)

    def _drop_link(self, link: Link) -> None:
        self._roster.link_down(link)
        self._voter.disconnected(link.peer)
        self._upkeep.link_down(link.peer)

    def _take_frame(self, link: Link, raw: bytes, mono_s: float) -> None:
        """Let one frame act; what no voter of this version and session would send changes nothing."""
        try:
            frame = decode_frame_of(link.session, raw)
        except Malformed:
            self.refused_frames += 1
            return
        if (why := implausible(frame, self._voter.term, self._voter.role, self._log.last_index)) is not None:
            self._drop_link(link)
            link.close(f"{link.peer} {why}")
            return
        self._roster.heard(link.peer, frame, mono_s)
        self._franchise.heard(link.peer, frame.applied_index)
        if isinstance(frame.message, Digests) and self._franchise.named(link.peer):
            self._digests.heard(link.peer, frame.message.claims, self._voter.leader)
        if self._room.full:
            self._decline(link.peer, frame)
        elif isinstance(frame.message, Consensus):
            self._voter.deliver(link.peer, frame.term, frame.message)
        else:
            self._upkeep.take(link.peer, frame)

    def _decline(self, peer: str, frame: Frame) -> None:
        """Hear a peer on a full disk: nothing is appended, adopted, voted for or acknowledged."""
        if isinstance(frame.message, Append) and frame.term >= self._voter.term:
            self._voter.heed(peer)
            self._outbox.post(peer, self._voter.term, Full())

    def _say_standing(self) -> None:
        if self._introductions.come_due():
            self._digests.heard(self.identity.name, self._checkpoint.claims(), self._voter.leader)
            if self._voter.role == "leader":
                offer_raise(self._proposals, self._checkpoint, self._roster, self._voter.counting)
            for link in list(self._roster.links.values()):
                if (why := self._franchise.refusal(link.peer, link.disk_id)) is not None:
                    self._drop_link(link)
                    link.close(why)
                else:
                    self._introductions.tell(link.peer, self._voter.term)

    @property
    def trouble(self) -> str | None:
        """Why this voter is not ready, in words for a person; None while it can do its part."""
        return self._room.trouble or self._log.trouble or self._digests.dispute or self._franchise.trouble

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on the state of committed ticks, in one snapshot.

        Raises:
            NotApplied: the voter is closed.
        """
        if self._closed:
            raise NotApplied(Why.CLOSED, "the voter is closed")
        return self._checkpoint.read(query)

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
