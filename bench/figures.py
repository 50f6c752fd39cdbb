"""Counting within a window of time, and medians with their spread."""

import time
from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

MS: Final = 1_000


class Shape(msgspec.Struct, frozen=True):
    """How much is asked at once: closed-loop clients, each with so many ops in a command."""

    clients: int
    ops: int

    def __str__(self) -> str:
        """Return it as tables show it."""
        return f"{self.clients} x {self.ops}"


class Load(msgspec.Struct, frozen=True):
    """A shape and for how long: what comes back before `warm_s` is over is not counted."""

    shape: Shape
    warm_s: float
    counted_s: float


class Measured(msgspec.Struct, frozen=True):
    """What one window saw.

    Attributes:
        refused: answers that were no success, in the window or around it; 0 in a valid run.
        client_cpu: share of one core that the process of the clients used.
    """

    ops_per_s: float
    p50_ms: float
    p99_ms: float
    refused: int
    client_cpu: float


class Window:
    """The time in which answers count, and what they took."""

    def __init__(self, load: Load) -> None:
        """Start warming now."""
        self._load = load
        self._opens_s = time.perf_counter() + load.warm_s
        self._closes_s = self._opens_s + load.counted_s
        self._took_s: list[float] = []
        self._refused = 0
        self._cpu_s = time.process_time()

    def answered(self, sent_s: float, *, accepted: bool) -> bool:
        """Note an answer that has come now; return whether its client should go on.

        Args:
            sent_s: `time.perf_counter()` just before its question left.
            accepted: whether it was a success; a client that is refused ends.
        """
        now_s = time.perf_counter()
        if not accepted:
            self._refused += 1
        elif self._opens_s <= now_s < self._closes_s:
            self._took_s.append(now_s - sent_s)
        return accepted and now_s < self._closes_s

    def measured(self) -> Measured:
        """Return what was seen; call it when all clients have ended."""
        took = sorted(self._took_s)
        if not took:
            return Measured(0.0, float("nan"), float("nan"), self._refused, self._cpu())
        return Measured(
            ops_per_s=len(took) * self._load.shape.ops / self._load.counted_s,
            p50_ms=took[len(took) // 2] * MS,
            p99_ms=took[len(took) * 99 // 100] * MS,
            refused=self._refused,
            client_cpu=self._cpu(),
        )

    def _cpu(self) -> float:
        return (time.process_time() - self._cpu_s) / (self._load.warm_s + self._load.counted_s)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Return the median with the least and the largest, as tables show it."""
    if not values:
        return "none"
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"
