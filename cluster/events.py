"""What happens to a replica between two ticks; each event waits in its inbox."""

from dataclasses import dataclass

from cluster.ports import Link


@dataclass(frozen=True, slots=True)
class Up:
    """A link is up."""

    link: Link


@dataclass(frozen=True, slots=True)
class Down:
    """A link ended."""

    link: Link


@dataclass(frozen=True, slots=True)
class Came:
    """A frame came in over a link, at an instant of this host's monotonic clock."""

    link: Link
    frame: bytes
    mono_s: float


class Resign:
    """Step down at the next tick."""


class HandOver:
    """Begin to hand leadership over."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A fresh connection to a peer's address was refused: no process listens there."""

    peer: str


Event = Up | Down | Came | Resign | HandOver | Refused
