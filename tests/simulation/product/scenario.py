"""One scenario from its plan: the plan acts, then everything is healed, then everything must come to rest."""

import asyncio
import gc
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.simulation.cluster.recording import files_watched
from tests.simulation.product.acting import Acting
from tests.simulation.product.healing import Healing
from tests.simulation.product.loop import Stuck, Task
from tests.simulation.product.plan import FAULTY_S, Plan, draw
from tests.simulation.product.world import World

MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Ended:
    """How a scenario ended."""

    plan: Plan
    violations: list[str]
    transcript: list[str]
    world: World


def run_plan(plan: Plan) -> Ended:
    """Run a plan to its end."""
    Task.serials = count()
    memory = MEMORY if MEMORY.is_dir() else None
    with files_watched(), tempfile.TemporaryDirectory(dir=memory) as home, _collecting_nothing():
        world = World(plan, Path(home))
        try:
            with world.coverage.recorded():
                world.loop.run_until_complete(_live(world))
        except Stuck as stuck:
            world.checker.report(f"stuck: {stuck}")
        world.close()
        return Ended(plan, world.checker.violations, world.transcript, world)


def run_seed(seed: int) -> Ended:
    """Run a seed."""
    return run_plan(draw(seed))


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Let no garbage be collected meanwhile: when it is depends on all that ran before."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _live(world: World) -> None:
    acting = Acting(world)
    world.network.keep_linked()
    for name in (*world.voters, *world.workers):
        world.start(name)
    for action in world.plan.actions:
        world.loop.after(action.at_s, None, acting.act, action)
    began_s = world.loop.now_s
    while world.loop.now_s < began_s + FAULTY_S + 0.5 + world.pause_s and not world.checker.violations:  # noqa: ASYNC110 - it looks from outside
        await asyncio.sleep(0.1)
    if not world.checker.violations:
        await Healing(world, acting).run()
