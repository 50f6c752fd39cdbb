"""What the outside hands to this package: clock and randomness."""

from typing import Protocol


class Clock(Protocol):
    """Two clocks that are never compared with each other."""

    def mono_s(self) -> float:
        """Return seconds that only grow, suspended time included (CLOCK_BOOTTIME); not comparable between hosts."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch, UTC, as this host believes; may step either way."""
        ...


class Randomness(Protocol):
    """Where ids and jitter come from; `random.SystemRandom` fits."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of k random bits."""
        ...
