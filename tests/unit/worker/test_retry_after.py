"""A worker that is asked to come back later does not come back sooner, with whatever message."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.worker.virtual_time import VirtualLoop, run
from tests.unit.worker.world import World
from worker.client import Rejected

PAUSE_S = 7.0


@pytest.mark.parametrize("kind", ["poll", "permits", "reports"])
def test_the_pause_that_was_asked_for_is_kept(kind: str, loop: VirtualLoop, world: World) -> None:
    times: list[float] = []
    real: Callable[[Any], Awaitable[Any]] = getattr(world, kind)

    async def busy_once(message: Any) -> Any:
        times.append(loop.time())
        if len(times) == 1:
            loop.call_later(1.0, lambda: world.owner.ready.append(("r2", 1)))  # there is more to say meanwhile
            raise Rejected("too many", retry_after_s=PAUSE_S)
        return await real(message)

    setattr(world, kind, busy_once)
    world.owner.ready = [("r1", 1)]
    assert run(loop, world.life())
    assert world.owner.attempts["r1", 1].state == "Succeeded"
    assert round(times[1] - times[0], 6) >= PAUSE_S
