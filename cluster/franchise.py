"""Whose word counts: which disk may vote, acknowledge and be counted for its voter, and which only follows.

A disk that was lost took its promises along: what it acknowledged and whom it voted for. So the disk in its place must
say nothing in its voter's name before it knows all that the lost one may have promised. It does once the entry that
names it is committed by a majority of *all* voters without it, and it holds that entry itself: every majority that ever
counted the lost disk shares another voter with that one.

Decided on the configuration in force, the newest in this voter's log, committed or not; see `cluster/configuration.py`.
"""

from dataclasses import dataclass
from typing import Protocol

from cluster.configuration import GENESIS, Roll, Seat, decode_change
from cluster.frames import CONFIGURE
from cluster.log_mirror import Entry
from cluster.ports import Identity


class Log(Protocol):
    """What the franchise reads of the log."""

    configuring: list[Entry]


class Applied(Protocol):
    """What the franchise reads of the checkpoint."""

    roll: Roll
    applied_index: int


@dataclass(frozen=True, slots=True)
class Heard:
    """What a voter last heard of a peer.

    Attributes:
        disk_id: the disk that spoke.
        applied_index: how far that disk said it has applied the log.
    """

    disk_id: str
    applied_index: int = GENESIS


def counts(seat: Seat | None, heard: Heard | None, *, matched: int, applied_index: int) -> bool:
    """Return whether a peer's acknowledgements count.

    Args:
        seat: whom the configuration in force names for it.
        heard: the disk that speaks for it now, or spoke last; what it acknowledged stays true while it is away.
        matched: up to where its log is known to equal the leader's.
        applied_index: of the leader. Either it or the disk itself has applied the entry that names the disk, which
            says that this entry is committed; it was, then, without the disk.
    """
    if seat is None or heard is None or seat.disk_id != heard.disk_id:
        return False
    return seat.since <= min(max(matched, GENESIS), max(applied_index, heard.applied_index))


def entitled(seat: Seat | None, *, disk_id: str, applied_index: int) -> bool:
    """Return whether a voter may vote and stand from its own disk, which has applied the log so far."""
    return seat is not None and seat.disk_id == disk_id and seat.since <= applied_index


class Franchise:
    """What one voter knows of the disks of all; nothing of it is durable but the log and the checkpoint."""

    def __init__(self, identity: Identity, log: Log, checkpoint: Applied) -> None:
        """Begin without having heard anybody."""
        self._identity, self._log, self._checkpoint = identity, log, checkpoint
        self._heard: dict[str, Heard] = {}

    @property
    def roll(self) -> Roll:
        """The configuration in force: what is applied, and what stands in the log behind that."""
        roll, applied_index = self._checkpoint.roll, self._checkpoint.applied_index
        for entry in self._log.configuring:
            if entry.index > applied_index:
                roll = roll.after(entry.index, decode_change(entry.command[len(CONFIGURE) :]))
        return roll

    @property
    def entitled(self) -> bool:
        """Whether this voter may vote and stand."""
        seat = self.roll.seat(self._identity.name)
        return entitled(seat, disk_id=self._identity.disk_id, applied_index=self._checkpoint.applied_index)

    def link_up(self, peer: str, disk_id: str) -> bool:
        """Note which disk speaks for a peer from now on; return whether it is another one than before."""
        known = self._heard.get(peer)
        self._heard[peer] = Heard(disk_id)
        return known is None or known.disk_id != disk_id

    def heard(self, peer: str, applied_index: int) -> None:
        """Note how far a linked peer says it has applied the log."""
        known = self._heard[peer]
        if applied_index > known.applied_index:
            self._heard[peer] = Heard(known.disk_id, applied_index)

    def named(self, peer: str) -> bool:
        """Whether a linked peer's disk is the one that speaks for it: then its vote counts.

        A disk that an entry named gives none before it has applied that entry.
        """
        seat, heard = self.roll.seat(peer), self._heard.get(peer)
        return seat is not None and heard is not None and seat.disk_id == heard.disk_id

    def counts(self, peer: str, matched: int) -> bool:
        """Whether what a peer acknowledges counts; `matched` is how far its log is known to equal this one."""
        applied_index = self._checkpoint.applied_index
        return counts(self.roll.seat(peer), self._heard.get(peer), matched=matched, applied_index=applied_index)

    def suffrage(self, name: str, disk_id: str) -> str:
        """Return what the word of a linked voter's disk (this one's too) is worth, as `PeerStatus` tells it."""
        roll, applied_index = self.roll, self._checkpoint.applied_index
        if roll.retired(name, disk_id):
            return "retired"
        seat = roll.seat(name)
        if seat is None or seat.disk_id != disk_id:
            return "not_accepted"
        told = applied_index if name == self._identity.name else self._heard[name].applied_index
        return "voter" if seat.since <= told else "catching_up"

    def refusal(self, name: str, disk_id: str) -> str | None:
        """Return why a disk may not be linked, in words; None if it may.

        Only what is applied retires a disk: an entry that is not committed may vanish again.
        """
        seat = self._checkpoint.roll.seat(name)
        if seat is None or not self._checkpoint.roll.retired(name, disk_id):
            return None
        return (
            f"this disk of {name} was replaced by disk {seat.disk_id} (entry {seat.since}) and never speaks for it"
            " again; stop it, and remove its folder"
        )

    @property
    def trouble(self) -> str | None:
        """Why this voter has no say, in words for a person; None while it has one."""
        if self.entitled:
            return None
        name, disk_id = self._identity.name, self._identity.disk_id
        seat = self.roll.seat(name)
        if self.roll.retired(name, disk_id):
            return f"this disk of {name} was replaced by another one; stop this voter, and remove its folder"
        if seat is not None and seat.disk_id == disk_id:
            return f"this disk is named for {name} by entry {seat.since}, which is not applied here yet"
        return (
            f"this disk is not accepted as {name} yet; run `fencepost voter replace {name} --disk {disk_id}` against"
            " another voter"
        )
