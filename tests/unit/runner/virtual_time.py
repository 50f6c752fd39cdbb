"""An asyncio loop whose clock jumps to the next timer: hours pass in milliseconds, and nothing sleeps."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _Jumping(selectors.DefaultSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every task waits for something that no timer will bring"
            self.now_s += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


class VirtualClock:
    """Both clocks of one host: monotonic is the loop's, wall starts at `start_ms` and can be stepped."""

    def __init__(self, start_ms: int) -> None:
        self.step_ms = start_ms

    def mono_s(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return self.step_ms + round(self.mono_s() * 1000)


def simulate(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())
