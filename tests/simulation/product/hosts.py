"""What a host gives to its processes: clocks, an executor, and places to die at."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.simulation.cluster.later import LaterExecutor
from tests.simulation.product.loop import Life, Loop

EPOCH_MS = 1_700_000_000_000  # wall clock at virtual second 0


class Killed(BaseException):
    """The process has ended in the middle of a step; what runs of it still is only unwinding."""


class HostClock:
    """One host's clocks: monotonic since some boot, and a wall clock that is skewed and may step."""

    def __init__(self, loop: Loop, offset_s: float, skew_s: float) -> None:
        self._loop, self._offset_s = loop, offset_s
        self.skew_s = skew_s

    def mono_s(self) -> float:
        return self._loop.now_s + self._offset_s

    def wall_ms(self) -> int:
        return EPOCH_MS + round(1000 * (self._loop.now_s + self.skew_s))


class HostExecutor(LaterExecutor):
    """Does jobs a little later, one at a time, unless its process has ended."""

    def __init__(self, loop: Loop, life: Life, delay_s: Callable[[], float]) -> None:
        super().__init__()
        self._loop, self._life, self._delay_s = loop, life, delay_s

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future = super().submit(fn, *args, **kwargs)
        self._loop.after(self._delay_s(), self._life, self.run_next)
        return future


class Fuse:
    """Counts places where a process may die, and acts of its disk that may fail."""

    def __init__(self, die: Callable[[], None], alive: Callable[[], bool]) -> None:
        self._die, self._alive = die, alive
        self.places: int | None = None  # how many more it passes
        self.flaw: int | None = None  # how many more acts of its disk succeed

    def point(self) -> None:
        """Die here, if this is the place; raises Killed, and in a process that has ended always."""
        if not self._alive():
            raise Killed
        if self.places is not None:
            self.places -= 1
            if self.places <= 0:
                self.places = None
                self._die()
                raise Killed

    def at_disk(self, fault: Exception) -> None:
        """The same, before an act of the disk, which may fail."""
        self.point()
        if self.flaw is not None:
            self.flaw -= 1
            if self.flaw <= 0:
                raise fault
