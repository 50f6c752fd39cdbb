"""The leader's end of a snapshot: one copy made off the loop, sent to each voter that needs it as fast as it takes it."""

import os
import sqlite3
import zlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from cluster.compaction import Bounds
from cluster.pieces import Piece, PieceKept
from cluster.ports import Clock
from cluster.snapshot_copy import OUTGOING, Copy, make_copy

MOST_RESTS: Final = 30  # the longest pause between two tries, in lengths of a stall: five minutes

_log = structlog.get_logger("cluster.snapshot")


@dataclass(slots=True)
class _Transfer:
    """One voter's way out of its lag, over one link and within one leadership.

    Attributes:
        sent: bytes of the copy sent.
        kept: bytes acknowledged.
        moved_mono_s: when it last made progress.
        goal: once the copy is installed there, the index to reach before it may be left to itself.
        matched: what it last acknowledged of the log.
    """

    moved_mono_s: float
    sent: int = 0
    kept: int = 0
    goal: int | None = None
    matched: int = 0


@dataclass(slots=True)
class _Rest:
    """How long one voter is left alone, after it did not take what it was sent over its link."""

    length_s: float
    until_mono_s: float


class Sending:
    """Every snapshot on its way; the log is pinned for them."""

    def __init__(self, source: Path, clock: Clock, executor: Executor, bounds: Bounds) -> None:
        """Begin with nothing; a copy that an earlier life left is removed."""
        self._source: Final = source
        self._target: Final = source.with_name(OUTGOING)
        self._now_s, self._executor, self._bounds = clock.mono_s, executor, bounds
        self._transfers: dict[str, _Transfer] = {}
        self._rests: dict[str, _Rest] = {}
        self._job: Future[Copy] | None = None
        self._copy: Copy | None = None
        self._pin = 0
        self._not_before_mono_s = float("-inf")
        self._target.unlink(missing_ok=True)

    @property
    def copying(self) -> bool:
        """Whether a thread reads checkpoint.db."""
        return self._job is not None

    @property
    def pin(self) -> int | None:
        """The index from which on the log must stay, or None."""
        pins = [transfer.matched for transfer in self._transfers.values() if transfer.goal is not None]
        if self._job is not None or self._copy is not None:
            pins.append(self._pin)
        return min(pins, default=None)

    def lead(
        self, lagging: Collection[str], matched: Mapping[str, int], applied: int, last: int, *, may_copy: bool
    ) -> None:
        """Begin, follow up and end transfers. After the commit of a tick of a leader, before `pieces`.

        Args:
            lagging: linked voters whose next entry is compacted away.
            matched: how far each linked voter's log is known to equal this one.
            applied: committed to checkpoint.db.
            last: end of the log.
            may_copy: whether the disk has room for a copy.
        """
        self._collect()
        for name, transfer in list(self._transfers.items()):
            if name not in matched or self._caught_up(transfer, matched[name], last, lagging=name in lagging):
                del self._transfers[name]
                if name not in lagging:
                    self._rests.pop(name, None)
            elif self._now_s() - transfer.moved_mono_s > self._bounds.stall_s:
                del self._transfers[name]
                self._rest(name)
        for name in lagging:
            if name not in self._transfers and self._now_s() >= self._not_before(name):
                self._transfers[name] = _Transfer(self._now_s())
        if not self._transfers:
            self._discard()
        elif may_copy and self._job is None and self._copy is None and self._wanted:
            self._pin = applied
            self._job = self._executor.submit(make_copy, self._source, self._target)

    @property
    def _wanted(self) -> bool:
        return any(transfer.goal is None for transfer in self._transfers.values())

    def _not_before(self, name: str) -> float:
        rest = self._rests.get(name)
        return self._not_before_mono_s if rest is None else max(self._not_before_mono_s, rest.until_mono_s)

    def _rest(self, name: str) -> None:
        """Leave a voter alone that does not take what it is sent, for longer each time: meanwhile it pins nothing."""
        before, least_s = self._rests.get(name), self._bounds.stall_s
        length_s = least_s if before is None else min(2 * before.length_s, MOST_RESTS * least_s)
        self._rests[name] = _Rest(length_s, self._now_s() + length_s)
        _log.warning("snapshot not taken", voter=name, next_try_s=length_s)

    def _caught_up(self, transfer: _Transfer, matched: int, last: int, *, lagging: bool) -> bool:
        """Note how far a voter is; tell whether it needs nothing more, or another copy."""
        if not lagging and transfer.goal is None:
            transfer.goal = last
        if matched > transfer.matched or self._job is not None:
            transfer.matched = max(matched, transfer.matched)
            transfer.moved_mono_s = self._now_s()
        return transfer.goal is not None and (lagging or matched >= transfer.goal)

    def pieces(self, post: Callable[[str, Piece], None]) -> None:
        """Hand out what fits every voter's window."""
        if self._copy is None:
            return
        try:
            descriptor = os.open(self._copy.path, os.O_RDONLY)
            try:
                for name, transfer in self._transfers.items():
                    self._fill(name, transfer, self._copy, descriptor, post)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._failed(error)

    def _fill(
        self, name: str, transfer: _Transfer, copy: Copy, descriptor: int, post: Callable[[str, Piece], None]
    ) -> None:
        size = self._bounds.piece_bytes
        while (
            transfer.goal is None
            and transfer.sent < copy.total
            and transfer.sent - transfer.kept < self._bounds.window_pieces * size
        ):
            content = os.pread(descriptor, min(size, copy.total - transfer.sent), transfer.sent)
            if not content:
                raise OSError(f"{copy.path} has become shorter")
            crc = zlib.crc32(content)
            post(name, Piece(copy.index, copy.term, copy.digest, copy.total, transfer.sent, crc, content))
            transfer.sent += len(content)

    def kept(self, name: str, kept: PieceKept) -> None:
        """Take an acknowledgement."""
        transfer, copy = self._transfers.get(name), self._copy
        if transfer is None or copy is None or kept.digest != copy.digest:
            return
        if transfer.kept < kept.offset <= transfer.sent:
            transfer.kept, transfer.moved_mono_s = kept.offset, self._now_s()

    def drop(self, name: str) -> None:
        """A link ended: what was on its way is lost, and a new link begins anew."""
        self._transfers.pop(name, None)
        self._rests.pop(name, None)

    def stop(self) -> None:
        """This voter does not lead: end everything."""
        self._collect()
        self._transfers.clear()
        self._rests.clear()
        self._discard()

    def _collect(self) -> None:
        """Take the finished copy."""
        if self._job is None or not self._job.done():
            return
        job, self._job = self._job, None
        try:
            self._copy = job.result()
        except (sqlite3.Error, OSError) as error:
            self._failed(error)
        else:
            self._pin = self._copy.index
            _log.info("snapshot made", index=self._copy.index, bytes=self._copy.total)

    def _failed(self, error: Exception) -> None:
        """A full disk must not stop a leader: the voters lag on, and are tried again later."""
        _log.warning("no snapshot", error=str(error))
        self._transfers.clear()
        self._discard()
        self._not_before_mono_s = self._now_s() + self._bounds.stall_s

    def _discard(self) -> None:
        if self._copy is not None:
            self._copy = None
            self._target.unlink(missing_ok=True)
