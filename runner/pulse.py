"""Says "look at the clock now": at the next planned instant, and at least once per pulse. It decides nothing."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NoReturn

from cluster.ports import Clock

_ROUND_UP_S: Final = 0.001  # planned instants are whole milliseconds; waking a fraction early would find nothing due


def wait_s(until_mono_s: float | None, mono_s: float, pulse_s: float) -> float:
    """Return how long to wait before the next look, seconds, in [0, pulse_s]."""
    if until_mono_s is None:
        return pulse_s
    return min(max(until_mono_s - mono_s, 0.0), pulse_s)


class Pulse:
    """The runner's only timer of the calendar."""

    def __init__(self, *, clock: Clock, pulse_s: float) -> None:
        """Beat at least every `pulse_s` seconds, once `run`."""
        self._clock = clock
        self._pulse_s = pulse_s
        self._until_mono_s: float | None = None
        self._aimed = asyncio.Event()

    def aim(self, in_s: float | None) -> None:
        """Look again in so many seconds, or just at the next pulse; replaces the aim before."""
        self._until_mono_s = None if in_s is None else self._clock.mono_s() + in_s + _ROUND_UP_S
        self._aimed.set()

    async def run(self, look: Callable[[], None]) -> NoReturn:
        """Call `look` at each beat, until cancelled."""
        while True:
            self._aimed.clear()
            wait = wait_s(self._until_mono_s, self._clock.mono_s(), self._pulse_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._aimed.wait()
                    continue
            self._until_mono_s = None
            look()
