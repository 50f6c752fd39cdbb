"""Draws what goes wrong: processes die or stand still, networks part, each for a while, at a pace of its own."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import permutations

from tests.processes.storms.plan import NAMES, TIMING
from tests.processes.storms.rig import Rig

Fault = Callable[[], Awaitable[None]]


class Nemesis:
    """Faults of one storm.

    Attributes:
        done: how often each fault was brought about.
    """

    def __init__(self, rig: Rig, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._rig = rig
        self._of_processes, self._of_networks = random.Random(f"{seed} processes"), random.Random(f"{seed} networks")

    async def rage(self, seconds: float) -> None:
        """Bring about faults for a while; the last ones are repaired by `heal`."""
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                group.create_task(self._processes(self._of_processes))
                if self._rig.network.can_part:
                    group.create_task(self._networks(self._of_networks))
        except TimeoutError:
            return

    async def heal(self) -> None:
        """Everybody lives, runs and reaches everybody."""
        self._rig.network.mend()
        for voter in self._rig.voters.values():
            voter.go_on()
            await voter.start()

    async def _processes(self, dice: random.Random) -> None:
        while True:
            await asyncio.sleep(dice.uniform(0.02, 0.35))  # the pace of the faults
            one = dice.choice(NAMES)
            leader = self._rig.latest
            two = dice.sample(NAMES, 2)
            what, names = dice.choices(
                (
                    ("kill leader", [leader]),
                    ("kill any", [one]),
                    ("kill two", two),
                    ("kill all", [*NAMES]),
                    ("stop leader", [leader]),
                    ("stop any", [one]),
                    ("stop two", two),
                ),
                (4, 3, 1, 2, 3, 2, 1),
            )[0]
            self.done[what] += 1
            await (self._kill(dice, names) if what.startswith("kill") else self._stop(dice, names))

    async def _kill(self, dice: random.Random, names: list[str]) -> None:
        voters = [self._rig.voters[name] for name in names]
        await asyncio.gather(*(voter.kill() for voter in voters))
        if dice.random() < 0.4:
            await asyncio.sleep(dice.uniform(0, 2 * TIMING.raft_max_s))  # how long they are away
        for voter in dice.sample(voters, len(voters)):
            await voter.start()

    async def _stop(self, dice: random.Random, names: list[str]) -> None:
        for name in names:
            self._rig.voters[name].stop()
        await asyncio.sleep(dice.uniform(1.2, 3.5) * TIMING.raft_max_s)  # how long they stand still
        for name in dice.sample(names, len(names)):
            self._rig.voters[name].go_on()

    async def _networks(self, dice: random.Random) -> None:
        network = self._rig.network
        while True:
            await asyncio.sleep(dice.uniform(0.05, 0.5))  # the pace of the faults
            leader = self._rig.latest
            others = [name for name in NAMES if name != leader]
            one, other = dice.sample(NAMES, 2)
            cut, pairs = dice.choice(
                (
                    ("cut leader off", [(leader, name) for name in others]),
                    ("deafen leader", [(name, leader) for name in others]),
                    ("silence leader", [(leader, name) for name in others]),
                    ("cut a pair", [(one, other)]),
                    ("silence one to another", [(one, other)]),
                    ("cut everybody off", [*permutations(NAMES, 2)]),
                )
            )
            self.done[cut] += 1
            part = network.sever if cut.startswith("cut") and dice.random() < 0.5 else network.silence
            for pair in pairs:
                part(*pair)
                if cut.startswith("cut"):
                    part(*reversed(pair))
            await asyncio.sleep(dice.uniform(0.5, 5) * TIMING.raft_max_s)  # how long it lasts
            network.mend()
