"""An event loop whose time passes only when there is nothing else to do, and a clock that follows it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        assert timeout is not None, "nothing will ever happen: every task waits for another"
        self.loop.mono_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self
        self.mono_s = 1_000.0

    def time(self) -> float:
        return self.mono_s


class VirtualClock:
    """Follows the loop; `suspended_s` passes only for the boot-time clock, as in a suspended host."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.suspended_s = 0.0

    def mono_s(self) -> float:
        return self._loop.mono_s + self.suspended_s

    def wall_ms(self) -> int:
        return 1_800_000_000_000 + int((self._loop.mono_s + self.suspended_s) * 1000)


def run(loop: VirtualLoop, story: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine on the loop."""
    return loop.run_until_complete(story)
