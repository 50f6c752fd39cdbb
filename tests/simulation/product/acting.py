"""Carries the actions of a plan out, and heals everything at its end."""

import asyncio
from typing import TYPE_CHECKING

from cluster.room import boundless
from tests.simulation.product.operators import Operators
from tests.simulation.product.plan import Action

if TYPE_CHECKING:
    from tests.simulation.product.world import World

SETTLE_S = 60.0


class Acting:
    """The hand of the plan."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.operators = Operators(world)
        self._acts = {
            "kill voter": self._kill_voter,
            "kill worker": self._kill_worker,
            "apply": lambda variant: self._ask(self.operators.apply(variant)),
            "trigger": lambda name: self._ask(self.operators.trigger(name)),
            "cancel": lambda which: self._ask(self.operators.cancel(which)),
        }

    def act(self, action: Action) -> None:
        """Carry one action out."""
        self._world.note("action", does=f"{action.kind} {' '.join(map(str, action.args))}")
        self._acts[action.kind](*action.args)

    def _ask(self, coroutine) -> None:  # noqa: ANN001
        self._world.loop.spawn(self.operators.life, coroutine)

    def _voter(self, name: str) -> str | None:
        """Return a running voter by name; `owner` is the one that drives."""
        world = self._world
        if name != "owner":
            return name if name in world.live else None
        owners = [each for each, voter in world.live.items() if voter.runner.drives]
        return owners[0] if owners else next(iter(world.live), None)

    def _kill_voter(self, name: str, how: str, count: int, down_s: float) -> None:
        world = self._world
        found = self._voter(name)
        if found is None:
            return
        voter = world.live[found]
        if how == "now":
            world.kill_voter(found, power=world.draws_power())
        elif how == "steps":
            voter.life.fuse = count
        else:
            voter.fuse.places = count
        self._start_again(found, down_s)

    def _start_again(self, name: str, down_s: float) -> None:
        """Start a process so long after it has died, however long that takes."""
        world = self._world
        start, running = (
            (world.start_voter, world.live) if name.startswith("node") else (world.start_worker, world.working)
        )

        def look() -> None:
            if name in running:
                world.loop.after(0.2, None, look)
            else:
                world.loop.after(down_s, None, start, name)

        world.loop.after(0.05, None, look)

    def _kill_worker(self, host: str, how: str, count: int, down_s: float) -> None:
        world = self._world
        process = world.working.get(host)
        if process is None:
            return
        if how == "now":
            world.kill_worker(host, power=world.draws_power())
        elif how == "steps":
            process.life.fuse = count
        else:
            process.fuse.places = count
        self._start_again(host, down_s)

    # ---- the end

    async def heal(self) -> None:
        """End all faults, start everything, and wait until nothing is left to do."""
        world = self._world
        world.note("healed")
        world.network.heal()
        for name in world.voters:
            world.free[name] = boundless()
            voter = world.live.get(name)
            if voter is None:
                world.start_voter(name)
            else:
                voter.life.fuse = voter.fuse.places = voter.fuse.flaw = None
        for name in world.workers:
            process = world.working.get(name)
            if process is None:
                world.start_worker(name)
            else:
                process.life.fuse = process.fuse.places = process.fuse.flaw = None
        end_s = world.loop.now_s + 5
        while world.loop.now_s < end_s and not world.checker.violations:
            await asyncio.sleep(0.1)
