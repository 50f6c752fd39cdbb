"""What keeps a voter's files bounded: WAL checkpoints, compaction of the log, and snapshots where that leaves a gap.

Everything long runs in an executor, on connections and files of its own; what it found is taken up between ticks.
"""

import sqlite3
from concurrent.futures import Executor, Future
from typing import Final

import structlog

from cluster import wal
from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import Bounds, start_of_log
from cluster.digests import Digests
from cluster.frames import Frame, Matched
from cluster.installing import install_steps
from cluster.library import Post
from cluster.log_store import LogStore
from cluster.outcome import FailStop
from cluster.pieces import Piece, PieceKept
from cluster.ports import Clock, Identity
from cluster.receiving import Receiving
from cluster.room import RESERVE_BYTES, Room
from cluster.roster import Roster
from cluster.sending import Sending
from cluster.snapshot_copy import Copy
from cluster.voter import Voter

_log = structlog.get_logger("cluster.snapshot")

LOG_FILE: Final = "raft.db"
MOVABLE_BYTES: Final = RESERVE_BYTES // 2  # of WALs: moving so much into the files is what the reserve is for too
PERIOD_S: Final = 0.1  # at most so often a WAL is looked at: a reader may hold it back for long


class Upkeep:
    """The housekeeper of one replica; called by its ticks, in the loop's thread.

    Attributes:
        installed: snapshots installed since the start.
    """

    def __init__(
        self,
        identity: Identity,
        log: LogStore,
        checkpoint: CheckpointStore,
        voter: Voter,
        post: Post,
        *,
        clock: Clock,
        executor: Executor,
        bounds: Bounds,
        room: Room,
        roster: Roster,
        digests: Digests,
    ) -> None:
        """Begin with nothing under way."""
        self.installed = 0
        self._log, self._checkpoint, self._voter = log, checkpoint, voter
        self._post, self._executor, self._bounds = post, executor, bounds
        self._log_path = checkpoint.path.with_name(LOG_FILE)
        self._name, self._room, self._roster, self._digests = identity.name, room, roster, digests
        self._sending = Sending(checkpoint.path, clock, executor, bounds)
        self._receiving = Receiving(checkpoint.path.parent, identity, checkpoint.supported_version, executor)
        self._now_s = clock.mono_s
        self._backfill: Future[None] | None = None
        self._not_before_mono_s = clock.mono_s()

    # ---- between ticks: memory and disk agree

    def before_tick(self) -> None:
        """Take up what the executor has finished; on a full disk nothing comes of it.

        Raises:
            FailStop: the disk failed.
        """
        self._take_backfill()
        if self._room.full:
            self._receiving.give_up()
            return
        copy = self._receiving.checked()
        if copy is not None and not self._sending.copying and self._backfill is None:
            self._install(copy)

    def _take_backfill(self) -> None:
        if self._backfill is not None and self._backfill.done():
            done, self._backfill = self._backfill, None
            try:
                done.result()
            except (sqlite3.Error, OSError) as error:
                raise FailStop(f"copying a WAL into its file: {error}") from error
            if not self._room.full:
                self._log.finish_wal()
                self._checkpoint.finish_wal()
                self._compact()

    def _compact(self) -> None:
        pin = self._sending.pin
        durable = self._checkpoint.durable_index
        start = start_of_log(self._log.entries, durable if pin is None else min(pin, durable), self._bounds)
        self._log.compact_to(start)

    def _install(self, copy: Copy) -> None:
        """Install a checked copy, unless it has nothing to give any more: never going back, at most once.

        Nor while it is open whose state is right: the copy of the one would do away with the word of the other.
        """
        stale = copy.index <= self._checkpoint.applied_index or self._voter.role == "leader"
        if stale or self._digests.dispute is not None:
            self._receiving.done()
            return
        if not self._checkpoint.finish_wal():
            return  # a reader holds the WAL; the next tick tries again
        for step in install_steps(self._log, self._checkpoint, copy):
            step()
        self._receiving.done()
        self._voter.installed()
        self._digests.forget(self._name)  # what it said was of the state that is gone
        self.installed += 1
        _log.info("snapshot installed", index=copy.index, bytes=copy.total)
        leader = self._voter.leader
        if leader is not None:
            self._post(leader, self._voter.term, Matched(copy.index))

    # ---- within a tick

    def take(self, peer: str, frame: Frame) -> None:
        """Take a frame of a snapshot, of a peer's current link; every other frame is nothing to it.

        Pieces never move the commit index, the log or the term; whatever is not of the current leadership is dropped.
        """
        message, current = frame.message, frame.term == self._voter.term
        match message:
            case Piece():
                fresh = message.index > self._checkpoint.applied_index and message.term <= frame.term
                fits = self._room.has(message.total - message.offset)
                if current and fresh and fits and self._voter.leader == peer and self._voter.role == "follower":
                    answer = self._receiving.take(peer, message)
                    if answer is not None:
                        self._post(peer, frame.term, answer)
            case PieceKept():
                if current and self._voter.role == "leader":
                    self._sending.kept(peer, message)
            case _:
                pass

    def link_down(self, peer: str) -> None:
        """A link ended: a snapshot on its way over it, in either direction, is off."""
        self._sending.drop(peer)
        self._receiving.drop(peer)

    def after_commit(self) -> None:
        """Begin what is due. After the commits of a tick, before its messages leave."""
        if self._voter.role == "leader" and self._digests.dispute is None:
            self._send()
        else:
            self._sending.stop()
        if self._backfill is None and self._now_s() >= self._not_before_mono_s:
            self._not_before_mono_s = self._now_s() + PERIOD_S
            if self._due():
                self._backfill = self._executor.submit(self._copy_wals)

    def _send(self) -> None:
        """Help whoever lags and has room for it, while this disk has room for the copy too."""
        applied, last = self._checkpoint.applied_index, self._log.last_index
        able, first, path = self._roster.able(), self._log.first_index, self._checkpoint.path
        told = self._voter.progress()
        progress = {name: told[name] for name in able if name in told}
        lagging = [name for name, (_, next_index) in progress.items() if next_index <= first]
        matched = {name: match for name, (match, _) in progress.items()}
        room = self._room.has(path.stat().st_size + wal.size(path)) if lagging else True
        self._sending.lead(lagging, matched, applied, last, may_copy=room)
        self._sending.pieces(lambda peer, piece: self._post(peer, self._voter.term, piece))

    def _due(self) -> bool:
        sizes = wal.size(self._log_path), wal.size(self._checkpoint.path)
        if not self._room.has(sum(sizes) - MOVABLE_BYTES):
            return False
        behind = self._checkpoint.applied_index - self._checkpoint.durable_index
        return behind >= self._bounds.every_entries or max(sizes) >= self._bounds.wal_bytes

    def _copy_wals(self) -> None:
        wal.backfill(self._log_path)
        wal.backfill(self._checkpoint.path)
