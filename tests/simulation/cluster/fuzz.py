"""One seeded run: faults for a while, then healing, then everything must hold.

Run one by hand: `PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation.cluster.fuzz SEED [LAST_SEED]`.
"""

import logging
import math
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import structlog

from cluster import window
from cluster.compaction import Bounds
from cluster.room import RESERVE_BYTES
from tests.simulation.cluster.going_back import goes_back
from tests.simulation.cluster.losses import Losses
from tests.simulation.cluster.recording import files_watched
from tests.simulation.cluster.world import World

FAULTY_S = 8.0
TIGHT = Bounds(every_entries=6, keep_entries=4, keep_bytes=300, piece_bytes=1024, window_pieces=3, stall_s=2.0)
"""Compaction about once a second, and a snapshot for whoever misses more than a handful of entries."""
VOTERS = (3, 3, 3, 5, 3, 3, 1, 3)  # by seed


class Faults:
    """Draws what goes wrong in each step, and when it is over."""

    def __init__(self, world: World) -> None:
        self._world, self._random = world, world.random
        self.losses = Losses(world)
        self._later: list[tuple[float, Callable[[], object]]] = []

    def step(self) -> None:
        world, random = self._world, self._random
        due = [act for at_s, act in self._later if at_s <= world.now_s]
        self._later = [(at_s, act) for at_s, act in self._later if at_s > world.now_s]
        for act in due:
            act()
        self.losses.step()
        for chance, fault in (
            (0.3, self._clients),
            (0.02, self._cut_one),
            (0.008, self._cut_leader_off),
            (0.01, self._slow),
            (0.01, self._stall),
            (0.01, self._slow_disk),
            (0.01, self._step_clock),
            (0.005, self._break_disk),
            (0.012, self._die),
            (0.004, self._resign),
            (0.006, self._fill),
            (0.006, self._hand_over),
            (0.006, self._reject_leader),
            (0.006, self._silence_one),
            (0.006, self._go_back),
            (0.005, self._lose_disk),
            (0.002, self._find_old_disk),
        ):
            if random.random() < chance:
                leader = world.leader()
                fault(leader.name if leader else None)
        if random.random() < 0.001:
            self._die_all()
        for name in world.names:
            if name not in world.live and not any(getattr(act, "name", "") == name for _, act in self._later):
                self._after(1.5, _Restart(world, name))

    def _after(self, at_most_s: float, act: Callable[[], object]) -> None:
        self._later.append((self._world.now_s + self._random.random() * at_most_s, act))

    def _clients(self, leader: str | None) -> None:
        random = self._random
        for _ in range(1 if random.random() < 0.85 else random.randint(3, 25)):
            name = leader if leader and random.random() < 0.8 else random.choice(self._world.names)
            kind = random.choices(("", "rival", "poison"), (90, 8, 2))[0]
            within_s = 0.15 * random.random() if random.random() < 0.1 else math.inf
            self._world.propose(name, size=random.randint(0, 60), kind=kind, within_s=within_s)
        if random.random() < 0.2:
            self._world.read_through_barrier(leader or random.choice(self._world.names))

    def _cut_one(self, _: str | None) -> None:
        links = self._world.network.links()
        if links:
            one, two = self._random.choice(links)
            self._world.network.disconnect(one, two)
            self._after(2.0, lambda: self._world.connect(one, two))

    def _cut_leader_off(self, leader: str | None) -> None:
        others = [name for name in self._world.names if leader and name != leader]
        half_open = self._random.random() < 0.5
        both_ways = self._random.random() < 0.5
        for other in others:
            if half_open:
                self._world.network.silence(str(leader), other)
                if both_ways:
                    self._world.network.silence(other, str(leader))
            else:
                self._world.network.disconnect(str(leader), other)
        self._after(3.0, lambda: self._reconnect(str(leader), others))

    def _reconnect(self, one: str, others: list[str]) -> None:
        for other in others:
            self._world.network.disconnect(one, other)
            self._world.connect(one, other)

    def _slow(self, _: str | None) -> None:
        if len(self._world.names) > 1:
            one, two = self._random.sample(self._world.names, 2)
            self._world.network.slow[one, two] = self._random.choice((0.1, 0.5, 1.5, 3.0))
            self._after(3.0, lambda: self._world.network.fast_again(one, two))

    def _stall(self, leader: str | None) -> None:
        name = leader if leader and self._random.random() < 0.5 else self._random.choice(self._world.names)
        if name in self._world.live:
            self._world.live[name].stalled_until_s = self._world.now_s + 1.5 * self._random.random()

    def _break_disk(self, leader: str | None) -> None:
        """Let an act of a disk fail: its voter must stop, having said nothing that is not there."""
        name = leader if leader and self._random.random() < 0.5 else self._random.choice(self._world.names)
        if name in self._world.live:
            self._world.live[name].flaw = self._random.randint(1, 40)

    def _step_clock(self, _: str | None) -> None:
        """Set a host's wall clock, to any time within two centuries; nothing here may hang on it."""
        name = self._random.choice(self._world.names)
        self._world.steps_s[name] = self._random.choice((0.0, 3.0, -3.0, 1e4, -1e4, 3e9, -3e9))

    def _slow_disk(self, _: str | None) -> None:
        name = self._random.choice(self._world.names)
        if name in self._world.live:
            self._world.live[name].flush_s = self._random.choice((0.0, 0.03, 0.1, 0.4))

    def _die(self, leader: str | None) -> None:
        """At once between two ticks, or at a random place inside the ticks that follow."""
        name = leader if leader and self._random.random() < 0.5 else self._random.choice(self._world.names)
        process = self._world.live.get(name)
        if process is None:
            return
        if self._random.random() < 0.2:
            self._world.kill(name, power=self._random.random() < 0.5)
        else:
            process.fuse = self._random.randint(1, 60)

    def _die_all(self) -> None:
        power = self._random.random() < 0.5
        for name in list(self._world.live):
            self._world.kill(name, power=power)

    def _lose_disk(self, leader: str | None) -> None:
        """Lose a voter's disk for good; what starts in its place is empty."""
        others = [name for name in self._world.names if name != leader]
        if self._world.gone_back:
            return  # one at a time
        self.losses.lose(self._random.choice(others if others and self._random.random() < 0.8 else self._world.names))

    def _find_old_disk(self, _: str | None) -> None:
        if not self._world.gone_back:  # else it would be out of sight which disk it is that lacks something
            self.losses.old_disk()

    def _resign(self, leader: str | None) -> None:
        if leader:
            self._world.live[leader].replica.resign()

    def _fill(self, leader: str | None) -> None:
        """Fill a disk for a while: from now on any write to it fails, which nothing survives."""
        name = leader if leader and self._random.random() < 0.5 else self._random.choice(self._world.names)
        self._world.free[name] = self._random.choice((0, RESERVE_BYTES - 1))
        self._after(3.0, lambda: self._world.empty(name))

    def _hand_over(self, leader: str | None) -> None:
        if leader:
            self._world.live[leader].replica.hand_over()
            self._after(1.0, lambda: leader in self._world.live and self._world.live[leader].replica.resign())

    def _reject_leader(self, leader: str | None) -> None:
        """Cut the leader from some others by a firewall that refuses: to them it looks as if it had died."""
        others = [name for name in self._world.names if name != leader and name in self._world.live]
        for other in others if leader else ():
            if self._random.random() < 0.6:
                self._world.network.disconnect(str(leader), other)
                self._world.refuse(other, str(leader))
                self._after(2.0, partial(self._world.connect, str(leader), other))

    def _silence_one(self, _: str | None) -> None:
        """Let nothing through on one link, in one direction, until it is made anew."""
        links = self._world.network.links()
        if links:
            one, two = self._random.choice(links)
            if self._random.random() < 0.5:
                one, two = two, one
            self._world.network.silence(one, two)
            self._after(3.0, lambda: self._reconnect(one, [two]))

    def _go_back(self, _: str | None) -> None:
        """Kill a voter, and let its raft.db lose what it had synced; never as many at the same time as a majority."""
        world, name = self._world, self._random.choice(self._world.names)
        too_many = len(world.gone_back | {name}) > (len(world.names) - 1) // 2
        if name not in world.live or too_many or self.losses.waiting is not None:
            return
        world.kill(name, power=self._random.random() < 0.3)
        if goes_back(world.disks[name], self._random):
            world.gone_back.add(name)
            world.losses += 1


class _Restart:
    """Start a process again and connect it."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self.name = world, name

    def __call__(self) -> None:
        if self.name not in self._world.live:
            known = self._world.versions[self.name]
            self._world.versions[self.name] = max(
                known, self._world.random.choice((1, 1, 2))
            )  # a program never goes back
            self._world.start(self.name)
            for other in self._world.names:
                if other != self.name:
                    self._world.connect(self.name, other)


def run_seed(seed: int) -> tuple[list[str], World]:
    """Run one seed; what it finds, and the world as it ended."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    small = patch.multiple(window, MAX_BATCH_BYTES=300, MAX_WINDOW_BYTES=1200)  # many batches from few entries
    with small, files_watched(), tempfile.TemporaryDirectory(dir=memory) as home:
        world = World(Path(home), seed, VOTERS[seed % len(VOTERS)], TIGHT)
        _live_through(world)
        for name in list(world.live):
            world.kill(name)
        return world.violations, world


def _live_through(world: World) -> None:
    for name in world.names:
        world.start(name)
    world.connect_all()
    world.run(1.0)
    world.network.replays = world.random.random() < 0.5
    faults = Faults(world)
    end_s = world.now_s + FAULTY_S
    while world.now_s < end_s and not world.violations:
        faults.step()
        world.step(0.005 + 0.035 * world.random.random())
    if not world.violations:
        _heal(world, faults.losses)


def _heal(world: World, losses: Losses) -> None:
    """Everything starts again and connects anew; then it must come to rest and go on."""
    world.network.slow.clear()
    for name in world.names:
        world.empty(name)
        if name in world.live:
            world.live[name].fuse = world.live[name].flaw = None
            world.live[name].stalled_until_s = world.live[name].flush_s = 0.0
        else:
            world.start(name)
    for one, two in world.network.links():
        world.network.disconnect(one, two)
    world.connect_all()
    world.run(1.0)
    if not losses.settle(20.0):
        world.violations.append("a lost disk is not made good after healing")
        return
    if not world.run_until(world.converged, 20.0):
        world.violations.append("it does not come to rest after healing")
        return
    leader = world.leader()
    assert leader is not None
    op = world.propose(leader.name)
    if not world.run_until(lambda: op in world.acknowledged and world.converged(), 10.0):
        world.violations.append("no progress after healing")
    losses.check()
    world.check_at_end()


def replay_line(seed: int) -> str:
    """Return the command that shows a seed again."""
    return f"PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation.cluster.fuzz {seed}"


def quiet() -> None:
    """Let no voter of this process write what it does: a seed has a line for each snapshot, and a run thousands of seeds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main(first: int, last: int) -> int:
    """Print what each seed finds; the voters tell what they do."""
    bad = acknowledged = installed = losses = replaced = 0
    for seed in range(first, last + 1):
        violations, world = run_seed(seed)
        acknowledged += len(world.acknowledged)
        installed += world.installed
        losses += world.losses
        replaced += world.replaced
        bad += bool(violations)
        for violation in violations[:5]:
            sys.stdout.write(f"seed {seed}: {violation}\n")
    sys.stdout.write(
        f"{last - first + 1} seeds, {acknowledged} acknowledged, {installed} snapshots, {losses} stores went back, "
        f"{replaced} disks replaced, {bad} with violations\n"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[-1])))
