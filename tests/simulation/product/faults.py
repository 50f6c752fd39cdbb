"""What goes wrong when a plan says so, and how each fault ends."""

import shutil
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from cluster.room import boundless
from tests.simulation.product.when import When

if TYPE_CHECKING:
    from tests.simulation.product.loop import Life
    from tests.simulation.product.world import World


class Faults:
    """The hand of the plan on hosts, network, disks and clocks."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.over = False  # everything is healed, and nothing may go wrong any more

    def _later(self, length_s: float, act: Callable[..., object], *args: object) -> None:
        self._world.loop.after(length_s, None, lambda: None if self.over else act(*args))

    # ---- processes

    def running(self, name: str) -> str | None:
        """Return a running host by name; `owner` is the voter that drives, or else any."""
        world = self._world
        if name != "owner":
            return name if name in world.live or name in world.working else None
        owners = [each for each, voter in world.live.items() if voter.runner.drives]
        return owners[0] if owners else next(iter(world.live), None)

    def _life(self, name: str) -> "Life | None":
        process = self._world.live.get(name) or self._world.working.get(name)
        return None if process is None else process.life

    def kill(self, who: str, how: str, count: int, down_s: float) -> None:
        """Kill now, or so many steps later, or at so manieth place between two acts of its disk."""
        world, name = self._world, self.running(who)
        if name is None:
            return
        process = world.live.get(name) or world.working[name]
        if how == "now":
            world.kill(name, power=world.draws_power())
        elif how == "steps":
            process.life.fuse = count
        else:
            process.fuse.places = count
        self.start_again(name, down_s)

    def start_again(self, name: str, down_s: float) -> None:
        """Start a process so long after it has died, however long that takes."""
        world = self._world

        def look() -> None:
            if name in world.live or name in world.working:
                self._later(0.2, look)
            else:
                self._later(down_s, world.start, name)

        self._later(0.05, look)

    def stop_voter(self, who: str, down_s: float) -> None:
        """Ask a runner to stop."""
        name = self.running(who)
        if name is not None:
            self._world.live[name].stop()
            self.start_again(name, down_s)

    def stop_alone(self, down_s: float) -> None:
        """Ask the owner to stop while so many others are down that nobody can follow it."""
        world, owner = self._world, self.running("owner")
        if owner is not None:
            for name in [each for each in world.live if each != owner][: len(world.voters) // 2 + 1]:
                world.kill(name)
                self.start_again(name, down_s)
            self.stop_voter(owner, down_s)

    def drain_worker(self, host: str, down_s: float) -> None:
        """Ask a worker to stop."""
        process = self._world.working.get(host)
        if process is not None:
            self._world.loop.after(0.0, process.life, process.worker.drain)
            self.start_again(host, down_s)

    def kill_all(self, power: bool, down_s: float) -> None:
        """End everything at once."""
        world = self._world
        for name in [*world.live, *world.working]:
            world.kill(name, power=power and world.plan.power)
            self.start_again(name, down_s * world.random.random())

    def outage(self, length_s: float) -> None:
        """Everything is down for long, also what would have been started again meanwhile."""
        world = self._world
        world.dark_until_s = max(world.dark_until_s, world.loop.now_s + length_s)
        for name in (*world.voters, *world.workers):
            world.kill(name, power=False)
            self._later(length_s, world.start, name)
        world.pause_s = max(world.pause_s, length_s)

    def wipe(self, host: str, down_s: float) -> None:
        """A worker's host is lost with its disk, and put up anew."""
        world, process = self._world, self._world.working.get(host)
        if process is None:
            return
        world.checker.crashes.wiped.add(process.ledger.id)
        world.kill(host, power=True)
        self._later(down_s, self._put_up_anew, host)

    def _put_up_anew(self, host: str) -> None:
        if host not in self._world.working:
            shutil.rmtree(self._world.folder_of(host))
            self._world.start(host)

    def clone(self, host: str, length_s: float) -> None:
        """Somebody starts a second worker under one name, on another host, and ends it later."""
        world, clone = self._world, f"{host}b"
        world.start(clone)
        self._later(length_s, world.kill, clone)

    def when(self, state: str, worker: str, delay_s: float, what: str, down_s: float) -> None:
        """Do something to a process as soon as an attempt comes into a state."""
        acts: dict[str, Callable[[], object]] = {
            "kill worker": lambda: self.kill(worker, "now", 0, down_s),
            "drain worker": lambda: self.drain_worker(worker, down_s),
            "stall worker": lambda: self.stall(worker, down_s),
            "kill owner": lambda: self.kill("owner", "now", 0, down_s),
            "stall owner": lambda: self.stall("owner", down_s),
        }
        whose = "" if what.endswith("owner") else worker
        self._world.whens.append(When(state, whose, delay_s, lambda: None if self.over else acts[what]()))

    # ---- network

    def part(self, who: str, way: str, width: str, length_s: float, salt: int) -> None:
        """Cut a host off from others, in one direction or both."""
        world, name = self._world, who if who == "desk" else self.running(who)
        if name is None:
            return
        others = [each for each in (*world.voters, *(world.workers if width == "all" else ())) if each != name]
        drawn = Random(salt)
        if width in {"some", "one"} and others:
            others = drawn.sample(others, 1 if width == "one" else drawn.randint(1, len(others)))
        for other in others:
            for pair, ways in (((name, other), {"both", "out"}), ((other, name), {"both", "in"})):
                if way in ways:
                    world.network.block(*pair)
                    self._later(length_s, world.network.unblock, *pair)

    def loss(self, share: float, length_s: float) -> None:
        """Let some of the calls lose their request or their reply."""
        self._world.network.loss = share
        self._later(length_s, setattr, self._world.network, "loss", 0.0)

    def lose(self, path: str, count: int) -> None:
        """Let the next replies to workers on a path be lost, of those that say something new."""
        self._world.network.losing[path] = count

    def slow(self, who: str, whom: str, delay_s: float, length_s: float) -> None:
        """Let messages between two hosts take long."""
        network, pair = self._world.network, (self.running(who), self.running(whom))
        if None not in pair:
            for each in (pair, pair[::-1]):
                network.slow[each] = delay_s
                self._later(length_s, network.slow.pop, each, None)

    def cut(self, who: str, salt: int) -> None:
        """Break a link between two voters; they dial anew."""
        name = self.running(who)
        others = [each for each in self._world.voters if each != name]
        if name is not None:
            self._world.network.cut(name, Random(salt).choice(others))

    # ---- hosts

    def stall(self, who: str, length_s: float) -> None:
        """Pause a process."""
        name = self.running(who)
        life = None if name is None else self._life(name)
        if life is not None:
            self._world.note("stalls", host=name, for_s=length_s)
            self._world.loop.stall(life, length_s)

    def clock(self, who: str, step_s: float) -> None:
        """Set a host's wall clock, or everybody's, off by so much."""
        clocks = self._world.clocks
        for name in list(clocks) if who == "all" else [self.running(who)]:
            if name is not None:
                clocks[name].skew_s += step_s

    def fill(self, who: str, length_s: float) -> None:
        """A voter's disk is full for a while."""
        name, free = self.running(who), self._world.free
        if name is not None:
            free[name] = 0
            self._later(length_s, free.__setitem__, name, boundless())

    def flaw(self, who: str, acts: int, down_s: float) -> None:
        """A disk fails after so many acts: its process must end."""
        name = self.running(who)
        process = None if name is None else self._world.live.get(name) or self._world.working.get(name)
        if process is not None:
            process.fuse.flaw = acts
            self.start_again(name, down_s)
