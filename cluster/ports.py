"""What the outside hands to this package: clock, randomness, connections and the state machine."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Two clocks that are never compared with each other."""

    def mono_s(self) -> float:
        """Return seconds that only grow while the host runs; not comparable between hosts."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch, UTC, as this host believes; may step either way."""
        ...


class Randomness(Protocol):
    """Where election timeouts and session ids come from; `random.Random` fits."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of k random bits."""
        ...


class Link(Protocol):
    """One live connection to one peer, both ends authenticated, frames in order.

    A link only ever loses a suffix of what was sent and then ends; it never drops a single frame.
    """

    @property
    def peer(self) -> str:
        """Name of the voter at the other end."""
        ...

    @property
    def disk_id(self) -> str:
        """Identity of the disk at the other end, as its hello said."""
        ...

    @property
    def session(self) -> str:
        """Identity of this connection, the same at both ends, never used again."""
        ...

    def send(self, frame: bytes) -> None:
        """Queue one frame; never blocks and never raises. Overflow or a dead peer closes the link."""
        ...

    def close(self, why: str) -> None:
        """Say goodbye with a reason for the peer's log, and end. Idempotent."""
        ...


class StateMachine(Protocol):
    """What the replicated commands mean; supplied by the package above.

    Attributes:
        version: the highest cluster version whose commands and meanings it knows.
    """

    version: int

    def create(self, db: sqlite3.Connection) -> None:
        """Create the tables of version 1 in an empty database, inside the caller's transaction."""
        ...

    def apply(self, db: sqlite3.Connection, command: bytes) -> object:
        """Apply one committed command inside the caller's transaction.

        Deterministic and total: no clock, randomness, float or unordered query; a refused command is a result.

        Returns:
            A msgpack-encodable value that names each changed row; it enters the running digest.

        Raises:
            FailStop: the command or an operation in it has a version that this program does not know.
        """
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this disk is, as written when it was made and never changed.

    Attributes:
        cluster_id: lower-case UUID of the cluster.
        generation: restore generation, from 1.
        name: this voter's name.
        disk_id: identity of this disk, 32 hex digits drawn when it was made.
        members: every voter's name, this one's included, with its disk's identity; of a disk that was made later, to
            replace another one, those of all others are unknown and empty.
    """

    cluster_id: str
    generation: int
    name: str
    disk_id: str
    members: Mapping[str, str]

    @property
    def at_genesis(self) -> bool:
        """Whether this disk was there when the cluster began."""
        return all(self.members.values())


@dataclass(frozen=True, slots=True)
class Timing:
    """Raft's lengths of time, all in seconds."""

    raft_min_s: float = 0.3
    raft_max_s: float = 0.6
    heartbeat_s: float = 0.05
    tick_s: float = 0.01


@dataclass(frozen=True, slots=True)
class PeerClock:
    """What another voter's wall clock said in its newest frame.

    Attributes:
        name: the voter.
        wall_ms: its wall clock in the frame, milliseconds since the epoch, UTC.
        seen_mono_s: this process's monotonic clock when the frame came in, seconds.
    """

    name: str
    wall_ms: int
    seen_mono_s: float


@dataclass(frozen=True, slots=True)
class Leadership:
    """A hint about who leads; never a fence."""

    term: int
    role: str  # "leader", "follower" or "candidate"


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """What this voter knows of another one (or of itself).

    Attributes:
        disk_id: the disk that speaks now, "" while it is not linked.
        suffrage: what its word is worth: "voter" counts; "catching_up" is accepted and does not count yet;
            "not_accepted" is a disk that no entry names; "retired" was replaced; "" while it is not linked.
    """

    name: str
    connected: bool
    applied_index: int
    disk_id: str = ""
    suffrage: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """One voter's own view; nothing in it is linearizable.

    Attributes:
        cluster_version: what every voter can apply; commands of later versions are refused.
        trouble: why this voter is not ready, in words for a person; None while it can do its part.
    """

    name: str
    role: str
    term: int
    leader: str | None
    commit_index: int
    applied_index: int
    last_index: int
    digest: str
    voters: tuple[PeerStatus, ...]
    trouble: str | None = None
    cluster_version: int = 1
