"""Which disk speaks for which voter, by the genesis and by the entries of the log that replace a disk.

The names of the voters are fixed for ever; only the disk behind one of them changes, one at a time. An entry takes
effect as soon as it stands in a log, committed or not (Raft, 6): whoever holds it counts the old disk no more. The new
one counts only later, once the entry is committed and that disk holds it itself: see `cluster/franchise.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from cluster.numbers import Word
from cluster.ports import Identity

GENESIS: Final = 1  # the index since which a disk of the genesis is named: that of every log's initial entry
MAX_VOTERS: Final = 64


class Change(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one entry says: a voter has another disk now.

    Attributes:
        name: the voter.
        disk_id: its disk from this entry on.
        before: every voter's disk before it, so that a disk without a genesis of its own learns them all.
    """

    name: Word
    disk_id: Word
    before: Annotated[dict[Word, Word], Meta(max_length=MAX_VOTERS)]


class Seat(NamedTuple):
    """A disk that was named for a voter, and the index of the entry that did (`GENESIS` = none had to)."""

    since: int
    disk_id: str


@dataclass(frozen=True, slots=True)
class Roll:
    """All disks that were ever named.

    Attributes:
        seats: each voter's, oldest first; the last one speaks for it, the others never will again.
    """

    seats: Mapping[str, tuple[Seat, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def seat(self, name: str) -> Seat | None:
        """Return the disk that speaks for a voter; None if this disk does not know any."""
        return self.seats.get(name, (None,))[-1]

    def retired(self, name: str, disk_id: str) -> bool:
        """Whether a disk spoke for a voter once and does no longer."""
        return any(seat.disk_id == disk_id for seat in self.seats.get(name, ())[:-1])

    def disks(self) -> dict[str, str]:
        """Return each voter's disk, as far as known."""
        return {name: seats[-1].disk_id for name, seats in self.seats.items()}

    def after(self, index: int, change: Change) -> "Roll":
        """Return what holds from an entry on, whatever it says."""
        before = self.naming((name, Seat(GENESIS, disk_id)) for name, disk_id in change.before.items())
        return before.naming([(change.name, Seat(index, change.disk_id))], again=True)

    def naming(self, named: Iterable[tuple[str, Seat]], *, again: bool = False) -> "Roll":
        """Return it with more disks; one that is known keeps its place, unless it is named again."""
        seats = dict(self.seats)
        for name, seat in named:
            known = seats.get(name, ())
            if again:
                known = tuple(each for each in known if each.disk_id != seat.disk_id)
            if all(each.disk_id != seat.disk_id for each in known):
                seats[name] = tuple(sorted((*known, seat)))
        return Roll(MappingProxyType(seats))


def genesis_roll(identity: Identity) -> Roll:
    """Return what a disk knows without any entry: all disks of its genesis, or nothing if it was not there."""
    genesis = identity.members.items() if identity.at_genesis else ()
    return Roll().naming((name, Seat(GENESIS, disk_id)) for name, disk_id in genesis)


_packed: Final = msgspec.msgpack.Encoder(order="deterministic")
_change_of: Final = msgspec.msgpack.Decoder(Change)


def encode_change(change: Change) -> bytes:
    """Return the bytes of a change, the same for the same change."""
    return _packed.encode(change)


def decode_change(content: bytes) -> Change:
    """Return the change in these bytes.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError: there is none.
    """
    return _change_of.decode(content)


def is_change(content: bytes) -> bool:
    """Whether these bytes are a change."""
    try:
        decode_change(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
