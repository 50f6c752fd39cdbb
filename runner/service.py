"""The runner of one voter: ownership, the loop and the pulse, and what the listeners may ask of them."""

import asyncio
from collections.abc import Sequence

from cluster.ports import Clock
from runner.checkpoint.ops import Op
from runner.checkpoint.results import OpResult
from runner.contacts import WorkerContact
from runner.loop import Loop
from runner.ownership import Ownership
from runner.ports import Node
from runner.pulse import Pulse
from runner.settings import Timing
from runner.tenure import Tenure
from runner.trusted_time import state_of


class Runner:
    """One per voter; drives the checkpoint while its voter owns it."""

    def __init__(self, *, node: Node, clock: Clock, name: str, voters: int, timing: Timing) -> None:
        """Wire it; nothing happens before `run`.

        Args:
            node: the voter underneath.
            clock: the same clocks that the node uses.
            name: this voter's name.
            voters: how many voters the cluster has.
            timing: the owner's deadlines.
        """
        self._node = node
        self._clock = clock
        self._name = name
        self._timing = timing
        self._pulse = Pulse(clock=clock, pulse_s=timing.pulse_s)
        self._loop = Loop(node=node, clock=clock, name=name, voters=voters, timing=timing, aim=self._pulse.aim)
        self._ownership = Ownership(node=node, loop=self._loop, clock=clock, name=name, timing=timing)

    async def run(self) -> None:
        """Work until cancelled; a part that ends ends the whole.

        Raises:
            ExceptionGroup: with the fault of the part that ended.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ownership.run())
            group.create_task(self._pulse.run(self._loop.look))

    async def stand_down(self, why: str) -> None:
        """Stop owning for good, as a stopping process does: the turn under way finishes, another voter takes over.

        Blocks: for one turn, and two seconds at most for the other voter. Afterwards only `owner` is of use.
        """
        await self._ownership.stand_down(why)

    @property
    def name(self) -> str:
        """Return this voter's name."""
        return self._name

    @property
    def tenure(self) -> Tenure | None:
        """Return the tenure under which this voter drives, or None."""
        return self._loop.tenure

    @property
    def drives(self) -> bool:
        """Tell whether this voter owns the checkpoint, as far as it knows."""
        return self._loop.tenure is not None

    @property
    def epoch(self) -> int | None:
        """Return the epoch under which this voter drives, or None."""
        tenure = self._loop.tenure
        return None if tenure is None else tenure.epoch

    def owner(self) -> str | None:
        """Return the owning voter as far as this one knows: itself if it drives, else whom it follows, or None.

        A hint for where to send a caller next; the one named answers for itself.
        """
        if self.drives:
            return self._name
        leader = self._node.status().leader
        return None if leader == self._name else leader

    async def submit(self, op: Op) -> OpResult:
        """Enqueue one operation and wait for its result; blocks and raises as `submit_all`."""
        return (await self._loop.submit((op,)))[0]

    async def submit_all(self, batch: Sequence[Op]) -> tuple[OpResult, ...]:
        """Enqueue the operations of one caller and wait for their results, in order.

        Blocks: until they were proposed and answered, a round of the cluster or two.

        Raises:
            NotApplied: of at least one and no outcome is unknown; repeating the whole is safe.
            OutcomeUnknown: of at least one; what became of it shows only in the checkpoint.
        """
        return await self._loop.submit(batch)

    def look(self) -> None:
        """Ask the loop for a turn."""
        self._loop.look()

    def workers(self) -> list[WorkerContact]:
        """Return the workers that polled this owner, by name; empty if this voter does not drive."""
        tenure = self._loop.tenure
        mono_s = self._clock.mono_s()
        return [
            WorkerContact(one.worker, one.incarnation, round(mono_s - one.mono_s, 3))
            for one in (tenure.contacts if tenure is not None else ())
        ]

    def clock_state(self) -> str:
        """Return what this owner thinks of the clocks, in the words of `ClockState`."""
        tenure = self._loop.tenure
        return state_of(tenure.reckoning if tenure is not None else None, self._timing).value
