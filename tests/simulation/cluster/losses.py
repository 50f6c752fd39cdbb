"""Disks that are lost for good, or seem to be: a new one takes their place, and now and then the old one turns up."""

from dataclasses import dataclass, field

from tests.simulation.cluster.disk import Disk
from tests.simulation.cluster.world import World


@dataclass
class Loss:
    """One voter whose disk was lost.

    Attributes:
        disks: those it has had, by their identity.
        accepted: what was answered as accepted, by identity.
    """

    name: str
    disks: dict[str, Disk] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)


class Losses:
    """At most one voter at a time has forgotten anything: the next one may once the last one counts again."""

    def __init__(self, world: World) -> None:
        self._world, self._random = world, world.random
        self._losses: dict[str, Loss] = {}
        self.waiting: str | None = None  # whose new disk does not count yet

    def lose(self, name: str) -> None:
        """Lose a voter's disk, unless another one is not made good yet; it stays down until somebody starts it."""
        world = self._world
        leader = world.leader()
        if len(world.names) == 1 or leader is None or self.waiting not in {None, name}:
            return
        if name == leader.name and self._random.random() < 0.7:
            return
        loss = self._losses.setdefault(name, Loss(name))
        disk_id = self._disk_id(name)
        loss.disks[disk_id] = world.prepare(name)
        self.waiting = name

    def step(self) -> None:
        """Ask for what is needed, as a patient operator would, and look what came of it."""
        world, name = self._world, self.waiting
        leader = world.leader()
        if name is None or leader is None or name not in world.live:
            return
        if self._counts(name):
            self.waiting = None
        elif self._random.random() < 0.1:
            asked = leader.name if self._random.random() < 0.8 else self._random.choice(sorted(world.live))
            self._ask(asked, name)

    def _ask(self, asked: str, name: str) -> None:
        disk_id, loss = self._world.live[name].disk_id, self._losses[name]
        if asked != name:
            self._world.replace(asked, name, lambda: loss.accepted.add(disk_id))

    def old_disk(self, name: str | None = None) -> None:
        """Let the newest old disk of a voter run again in the place of the new one, until it dies of something."""
        choices = [each for each in self._losses.values() if each.disks and each.name != self.waiting]
        if not choices:
            return
        loss = self._losses[name] if name else self._random.choice(choices)
        self._run_from(loss, self._random.choice(sorted(loss.disks)))

    def _put_right(self) -> None:
        """Let no voter run from an older disk, accepted once or never: start it from the one that was accepted last."""
        disks = max(self._world.live.values(), key=lambda each: each.checkpoint.applied_index).checkpoint.roll.disks()
        for name, loss in self._losses.items():
            if name != self.waiting and disks.get(name) in loss.disks:
                self._run_from(loss, disks[name])
                self._world.start(name)
                self._world.connect_all()

    def _run_from(self, loss: Loss, disk_id: str) -> None:
        world, name = self._world, loss.name
        if name in world.live:
            world.kill(name)
        loss.disks[self._disk_id(name)] = world.disks[name]
        world.disks[name] = loss.disks.pop(disk_id)

    def _disk_id(self, name: str) -> str:
        return self._world.disks[name].disk_id

    def _counts(self, name: str) -> bool:
        leader = self._world.leader()
        if leader is None:
            return False
        in_force = leader.checkpoint.roll.disks().get(name) == self._disk_id(name)
        return in_force and (leader.name == name or name in leader.replica._voter.counting)

    def settle(self, within_s: float) -> bool:
        """Put right what runs from a wrong disk, and ask until every disk counts; the caller has healed all else."""
        end_s = self._world.now_s + within_s
        while self._world.now_s < end_s and not all(map(self._counts, self._losses)):
            self._put_right()
            self.step()
            self._world.run(0.1)
        return all(map(self._counts, self._losses))

    def check(self) -> None:
        """What was answered as accepted was: the disk is in force, or another one was accepted after it."""
        leader = self._world.leader()
        assert leader is not None
        self._world.replaced = sum(len(seats) - 1 for seats in leader.checkpoint.roll.seats.values())
        for name, loss in self._losses.items():
            named = {seat.disk_id for seat in leader.checkpoint.roll.seats[name]}
            if not loss.accepted <= named:
                self._world.violations.append(f"a disk of {name} was accepted, and nobody knows of it")
