"""After the faults: everything is put right, and then everything must come to rest within bounded time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from cluster.room import boundless
from tests.simulation.product.acting import Acting
from tests.simulation.product.overlaps import limit_of
from tests.simulation.product.rows import ENDED_RUN, Key, Row
from worker.ledger_row import LedgerRow
from worker.words import words

if TYPE_CHECKING:
    from tests.simulation.product.world import World

OWNER_S = 20.0
ASKING_S = 60.0
STOPS = 10
LASTING_S = 12.0  # most work ends by itself before that
REST_S = 150.0
PROGRESS_S = 20.0


class Healing:
    """Puts right, and waits."""

    def __init__(self, world: "World", acting: Acting) -> None:
        self._world, self._acting = world, acting

    async def run(self) -> None:
        """End all faults; then everything that is due must be launched, answered and ended, or say why not."""
        world = self._world
        self._put_right()
        if not await self._until(self._has_owner, OWNER_S, "owner after healing"):
            return
        if not await self._until(lambda: all(each.done() for each in self._acting.asking), ASKING_S, "end of asking"):
            return
        await self._acting.ask(self._acting.people.settle())
        await self._stop_what_lasts()
        if not await self._until(self._at_rest, REST_S, "rest after healing"):
            for what in self._unrest()[:5]:
                world.note(f"not at rest: {what}")
            return
        await self._acting.ask(self._acting.people.prove_progress())
        if await self._until(self._made_progress, PROGRESS_S, "fresh run after healing"):
            await self._stop_what_lasts()  # what found room only now
            await self._until(self._at_rest, PROGRESS_S, "rest at the end")
            world.checker.at_end()

    async def _stop_what_lasts(self) -> None:
        """Let people stop work that does not end by itself, until all is at rest or they give up."""
        for _ in range(STOPS):
            if await self._until(self._at_rest, LASTING_S, None):
                return
            await self._acting.ask(self._acting.people.stop_what_lasts())

    def _put_right(self) -> None:
        world = self._world
        world.note("healed")
        self._acting.faults.over = True
        world.network.heal()
        for name in [each for each in world.working if each.endswith("b")]:
            world.kill(name, power=False)
        for process in (*world.live.values(), *world.working.values()):
            process.life.fuse = process.fuse.places = process.fuse.flaw = None
        for name in world.voters:
            world.free[name] = boundless()
        world.clocks_agree()
        world.whens.clear()

    def _start_all(self) -> None:
        for name in (*self._world.voters, *self._world.workers):
            self._world.start(name)

    async def _until(self, holds: Callable[[], bool], within_s: float, what: str | None) -> bool:
        """Wait for something; where it has a name, it is a finding that it does not come."""
        world = self._world
        end_s = world.loop.now_s + within_s
        while world.loop.now_s < end_s and not world.checker.violations:
            self._start_all()  # one that was asked to stop ends now
            if holds():
                return True
            await asyncio.sleep(0.1)
        if what is not None and not world.checker.violations:
            world.checker.report(f"within {within_s:g} s there is no {what}: {self._unrest()[:3]}")
        return False

    def _has_owner(self) -> bool:
        return any(voter.runner.drives for voter in self._world.live.values())

    def _at_rest(self) -> bool:
        world = self._world
        applied = {voter.checkpoint.applied_index for voter in world.live.values()}
        return applied == {world.checker.newest} and not self._unrest()

    def _unrest(self) -> list[str]:
        """Return what has still to happen."""
        world, rows = self._world, self._world.checker.rows
        found = [
            f"run {run_id} is {row['state']} {row['reason']}, attempts {rows.attempts_of(run_id)}"
            for run_id, row in rows.runs.items()
            if row["state"] not in ENDED_RUN and not self._may_stay(row)
        ]
        found += [f"work {work.key} is alive" for work in world.alive_works() if not self._may_live(work.key)]
        for host, process in world.working.items():
            found += [f"{host} has still to say: {row}" for row in process.ledger.unanswered() if self._is_owed(row)]
        return found

    def _is_owed(self, row: LedgerRow) -> bool:
        """Whether an answer, or the end of its work, is to come; work that nobody ended may last, and so its row."""
        return bool(words(row)) or not self._may_live((row.binding.run_id, row.binding.attempt))

    def _may_stay(self, row: Row) -> bool:
        """Whether a run that has not ended may wait for ever: for people, or behind one that does."""
        rows = self._world.checker.rows
        if row["state"] == "Unknown":
            return True
        if row["state"] == "Cancelling":
            return any(each["unresolved"] for each in rows.attempts_of(row["run_id"]))
        if row["state"] != "Pending":
            return False
        schedule = rows.schedules[row["schedule_id"]]
        slot = schedule["slot_run_id"]
        if not row["beside"]:
            if slot not in {None, row["run_id"]}:
                return self._may_stay(rows.runs[slot])
            lasting = sum(self._may_stay(each) for each in rows.overlaps.counted_beside(row["schedule_id"]))
            if lasting >= limit_of(schedule["spec"]):
                return True
        return self._pool_is_full(row["pool"]) or self._workers_are_full()

    def _may_live(self, key: Key) -> bool:
        """Whether work that nothing ends may go on: if nobody says that it has ended."""
        row = self._world.checker.rows.attempts[key]
        return row["state"] == "Unknown" or bool(row["unresolved"])

    def _pool_is_full(self, pool: str) -> bool:
        rows = self._world.checker.rows
        held = [row for row in rows.attempts.values() if row["authority"] == pool and not row["superseded"]]
        waiting = [row for row in held if row["state"] == "Unknown" or row["unresolved"]]
        return len(waiting) >= rows.pools.get(pool, 64)

    def _workers_are_full(self) -> bool:
        """Whether all room of every worker is taken by work that nothing ends and that may go on."""
        world = self._world
        lasting = Counter(work.host for work in world.alive_works() if self._may_live(work.key))
        return all(lasting[host] >= world.plan.slots for host in world.working)

    def _made_progress(self) -> bool:
        """Whether the fresh run has ended well, or waits as it may: for capacity or room that people hold."""
        name = self._acting.people.fresh
        runs = [run for run in self._world.checker.rows.runs.values() if run["schedule"] == name]
        return any(run["state"] == "Succeeded" or (run["state"] == "Pending" and self._may_stay(run)) for run in runs)
