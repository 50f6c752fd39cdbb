"""A whole cluster in one thread on virtual time: real replicas, real files, seeded faults, and an oracle."""

import math
import sqlite3
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from random import Random

from cluster.compaction import DEFAULT_BOUNDS, Bounds
from cluster.identity import create_disk, joining, read_identity
from cluster.outcome import Applied, FailStop, NotApplied, OutcomeUnknown, Why
from cluster.ports import Identity, Timing
from cluster.proposals import Outcome
from cluster.replica import Replica
from cluster.room import RESERVE_BYTES, boundless
from tests.simulation.cluster.disk import Disk
from tests.simulation.cluster.later import LaterExecutor
from tests.simulation.cluster.machine import Appends, appended
from tests.simulation.cluster.network import End, Network
from tests.simulation.cluster.order import Order
from tests.simulation.cluster.recording import Answered, History, Sent

IO_ERROR = "disk I/O error"


class Killed(BaseException):
    """The process is gone at this very instant; `power` says whether its host is, None lets chance decide."""

    power: bool | None = None


class VirtualClock:
    """One host's clocks: an offset of its own on the world's time; its wall clock may step."""

    def __init__(self, world: "World", name: str) -> None:
        self._world, self._name, self._offset_s = world, name, world.offsets[name]

    def mono_s(self) -> float:
        return self._world.now_s + self._offset_s

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(1000 * (self._world.now_s + self._world.steps_s[self._name]))


class Process:
    """One life of one voter."""

    def __init__(self, world: "World", name: str) -> None:
        self.name, self._world = name, world
        self.fuse: int | None = None  # how many more places to die it passes
        self.flaw: int | None = None  # how many more acts of its disk succeed
        self.stalled_until_s = 0.0
        self.flush_s = 0.0  # how long the disk takes for a flush: the voter's loop goes on meanwhile, its ticks do not
        self._step: Generator[Callable[[], None], None, bool] | None = None
        self._flush: Callable[[], None] = lambda: None
        self._flushed_s = 0.0
        self.checked = 1
        self.again = False
        self.executor = LaterExecutor()
        self._starts = True  # it may finish an installation out of the reserve
        disk = world.disks[name]
        machine = Appends()
        machine.version = world.versions[name]
        identity = read_identity(disk.folder)
        self.disk_id = identity.disk_id
        log, checkpoint = disk.open(identity, machine, self._at_disk, self._has_space)
        self.log, self.checkpoint = log, checkpoint
        self.replica = Replica(
            identity,
            log,
            checkpoint,
            clock=VirtualClock(world, name),
            randomness=Random(world.random.getrandbits(32)),
            timing=world.timing,
            executor=self.executor,
            bounds=world.bounds,
            free_bytes=lambda: world.free[name],
        )
        self._starts = False

    def point(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                raise Killed

    def _at_disk(self) -> None:
        """Before and after each act of the disk: a place to die, or for the act to fail."""
        self.point()
        if self.flaw is not None:
            self.flaw -= 1
            if self.flaw <= 0:
                raise sqlite3.OperationalError(IO_ERROR)

    def _has_space(self) -> bool:
        """Whether a write goes through: a start, and a tick that began with room, may use up the reserve."""
        return self._starts or self.flushing or self._world.free[self.name] >= RESERVE_BYTES

    @property
    def flushing(self) -> bool:
        """Whether a tick waits for its disk."""
        return self._step is not None

    def tick(self) -> bool:
        """Tick, or go on with a tick whose flush takes its time; return whether to tick again at once."""
        now_s = self._world.now_s
        try:
            if self._step is None:
                self._step = self.replica.step()
                self._flush, self._flushed_s = next(self._step), now_s + self.flush_s
            if now_s >= self._flushed_s:
                self._flush()
                next(self._step)
        except StopIteration as end:
            self._step = None
            return bool(end.value)
        return False

    def work(self) -> None:
        """Do what was given to the executor; whatever it does, the voter learns of it in its next tick."""
        self.executor.run_next()

    def connected(self, link: End) -> None:
        self.replica.connected(link)

    def received(self, link: End, frame: bytes) -> None:
        self.replica.received(link, frame)

    def disconnected(self, link: End) -> None:
        self.replica.disconnected(link)


class World:
    """Voters, network, clients and what must hold of them."""

    def __init__(self, home: Path, seed: int, voters: int, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self.random, self.bounds = Random(seed), bounds
        self.installed = self.compacted = self.losses = self.replaced = 0
        self.gone_back: set[str] = set()  # voters that have lost something, until it is made good
        self.now_s = 1000.0
        self.timing = Timing()
        self.names = [f"node{rank}" for rank in range(1, voters + 1)]
        members = {name: f"{rank:032x}" for rank, name in enumerate(self.names, start=1)}
        self.identities = {
            name: Identity("00000000-0000-4000-8000-000000000001", 1, name, members[name], members)
            for name in self.names
        }
        self.offsets = {name: self.random.uniform(0, 500) for name in self.names}
        self.steps_s = dict.fromkeys(self.names, 0.0)  # how far each host's wall clock has been set off
        self.home, self.prepared = home, 0
        self.history = History()
        self.order = Order(self.names)
        self.history.listeners.append(self.order.take)
        self.disks = {name: Disk(home / name, name, self.random, self.history) for name in self.names}
        for name in self.names:
            create_disk(self.disks[name].folder, self.identities[name])
            self.disks[name].disk_id = members[name]
        self.versions = dict.fromkeys(self.names, 1)  # of the program that each starts next
        self.free = dict.fromkeys(self.names, boundless())
        self.live: dict[str, Process] = {}
        self.network = Network(self.random, self.live, self.history)  # type: ignore[arg-type]  # a dict is invariant
        self.violations = self.order.violations
        self.entries: dict[int, tuple[int, bytes]] = {}
        self.digests = self.order.digests
        self.leaders: dict[int, Process] = {}
        self.answers: dict[str, list[Outcome]] = {}
        self.asked_of: dict[str, Process] = {}
        self.acknowledged: set[str] = set()
        self.refusals: list[tuple[float, Process, str]] = []  # when who learns that whose address refuses

    # ---- processes

    def start(self, name: str) -> None:
        try:
            self.live[name] = Process(self, name)
        except Killed as death:
            self.disks[name].die(power=self._is_power_loss(death))
        except (FailStop, Exception) as error:  # noqa: BLE001 - whatever it is, a voter that cannot start is a finding
            self.violations.append(f"{name} cannot start: {error!r}")

    def _is_power_loss(self, death: Killed) -> bool:
        return self.random.random() < 0.5 if death.power is None else death.power

    def kill(self, name: str, *, power: bool = False) -> None:
        """End a process between two instructions; nothing of it runs again.

        Its host's kernel refuses who dials it afterwards; at power loss nobody is left to refuse.
        """
        process = self.live.pop(name)
        self.disks[name].die(power=power)
        log, checkpoint = process.log, process.checkpoint
        for file in (log._wal_flush, log._db, log._mark, checkpoint._writer, checkpoint._reader):
            file.close()
        for other in self.names:
            self.network.disconnect(name, other)
            if other in self.live and not power:
                self.refuse(other, name)

    def refuse(self, name: str, peer: str) -> None:
        """Let a process find, a moment later, that a peer's address refuses connections."""
        self.refusals.append((self.now_s + 0.05 * self.random.random(), self.live[name], peer))

    def prepare(self, name: str) -> Disk:
        """Lose a voter's disk and put an empty one in its place; return the lost one, which may yet turn up again."""
        if name in self.live:
            self.kill(name, power=True)
        self.prepared += 1
        lost = self.disks[name]
        disk = self.disks[name] = Disk(self.home / f"{name}-{self.prepared}", name, self.random, self.history)
        cluster_id = self.identities[name].cluster_id
        identity = joining(cluster_id=cluster_id, name=name, disk_id=f"{1000 + self.prepared:032x}", members=self.names)
        create_disk(disk.folder, identity)
        disk.disk_id = identity.disk_id
        return lost

    def replace(self, asked: str, name: str, accepted: Callable[[], object] = lambda: None) -> list[Outcome]:
        """Ask a voter to have the disk that runs for another one accepted; return where its answer comes."""
        answers: list[Outcome] = []

        def answer(outcome: Outcome) -> None:
            answers.append(outcome)
            if isinstance(outcome, Applied):
                accepted()
            if len(answers) > 1:
                self.violations.append(f"a wish to replace {name} was answered {len(answers)} times")

        try:
            self.live[asked].replica.replace(name, self.live[name].disk_id, answer)
        except NotApplied as error:
            answers.append(error)
        return answers

    def connect(self, one: str, two: str) -> None:
        points = {name: process.point for name, process in self.live.items()}
        if self.network.connect(one, two, points):
            for name, peer in ((one, two), (two, one)):
                self.history.tell(Sent(name, peer, self.live[name].replica.hello(bytes(16))))

    def connect_all(self) -> None:
        for rank, one in enumerate(self.names):
            for two in self.names[rank + 1 :]:
                self.connect(one, two)

    # ---- time

    def step(self, length_s: float = 0.02) -> None:
        self.now_s += length_s
        self.network.now_s = self.now_s
        due = [refusal for refusal in self.refusals if refusal[0] <= self.now_s]
        self.refusals = [refusal for refusal in self.refusals if refusal[0] > self.now_s]
        for _, process, peer in due:
            process.replica.refused(peer)
        for name in self.names:
            process = self.live.get(name)
            if process is not None and process.stalled_until_s <= self.now_s:
                self.network.deliver_due(name)
                self.tick(process)

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.step()

    def run_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        end_s = self.now_s + seconds
        while self.now_s < end_s and not holds():
            self.step()
        return holds()

    def tick(self, process: Process) -> None:
        installed, first = process.replica._upkeep.installed, process.log.first_index
        try:
            if process.executor.waiting and self.random.random() < 0.3:
                process.work()
            for _ in range(3):
                if not process.tick():
                    break
                self.check(process)
        except Killed as death:
            self.kill(process.name, power=self._is_power_loss(death))
        except FailStop as error:
            if process.flaw is None or IO_ERROR not in str(error):
                self.violations.append(f"{process.name} stopped: {error}")
            self.kill(process.name)
        else:
            if not process.flushing:
                self.check(process)
            self.installed += process.replica._upkeep.installed - installed
            self.compacted += process.log.first_index > first

    def empty(self, name: str) -> None:
        """Give a voter's disk its space back."""
        self.free[name] = boundless()

    def leader(self) -> Process | None:
        leaders = [process for process in self.live.values() if process.replica.leadership.role == "leader"]
        return max(leaders, key=lambda process: process.replica.leadership.term, default=None)

    # ---- clients

    def propose(self, name: str, size: int = 0, kind: str = "", within_s: float = math.inf, version: int = 1) -> str:
        op = f"{kind}op{len(self.answers) + 1}{'x' * size}"
        self.answers[op] = []
        process = self.live.get(name)
        if process is None:
            self.answers[op].append(NotApplied(Why.CLOSED, "the process is down"))
            return op
        self.asked_of[op] = process
        try:
            process.replica.propose(op.encode(), partial(self._answer, op), within_s, version)
        except NotApplied as error:
            self._answer(op, error)
        return op

    def _answer(self, op: str, outcome: Outcome) -> None:
        self.answers[op].append(outcome)
        if isinstance(outcome, Applied):
            self.acknowledged.add(op)
            self.history.tell(Answered(self.asked_of[op].name, outcome))

    def read_through_barrier(self, name: str) -> None:
        """A linearizable read sees whatever was acknowledged before it was asked for."""
        process = self.live.get(name)
        if process is None:
            return
        before = set(self.acknowledged)

        def look(outcome: Outcome) -> None:
            if isinstance(outcome, Applied):
                self.history.tell(Answered(name, outcome))
                missing = before - set(process.replica.read(appended))
                if missing:
                    self.violations.append(f"a read on {name} misses {sorted(missing)[:3]}")

        try:
            process.replica.barrier(look)
        except NotApplied:
            return

    # ---- what must hold

    def check(self, process: Process) -> None:
        """After each tick: one entry per index, equal digests at equal index, one leader per term."""
        name, applied = process.name, process.checkpoint.applied_index
        if process.log.entitled:
            self.gone_back.discard(name)
        for index in range(max(process.checked, process.log.first_index) + 1, applied + 1):
            entry = process.log.entry(index)
            mine = (entry.term, entry.command)
            if self.entries.setdefault(index, mine) != mine:
                self.violations.append(f"{name} applied {mine} at {index}, others {self.entries[index]}")
        process.checked = applied
        digest = process.checkpoint.digest
        if self.digests.setdefault(applied, digest) != digest:
            self.violations.append(f"{name} has another digest at {applied}")
        leadership = process.replica.leadership
        if leadership.role == "leader" and self.leaders.setdefault(leadership.term, process) is not process:
            self.violations.append(f"term {leadership.term} has two leaders, {name} is one")
        if leadership.role == "leader" and not process.replica._franchise.entitled:
            self.violations.append(f"{name} leads from a disk that nobody has accepted")

    def converged(self) -> bool:
        ends = {process.log.last_index for process in self.live.values()}
        applied = {process.checkpoint.applied_index for process in self.live.values()}
        return self.leader() is not None and len(self.live) == len(self.names) and ends == applied and len(ends) == 1

    def check_at_end(self) -> None:
        """When everything is healed: all states equal, nothing lost, nothing twice, everybody answered once."""
        states = {name: process.replica.read(appended) for name, process in self.live.items()}
        state = states[min(states)]
        if len({process.checkpoint.cluster_version for process in self.live.values()}) != 1:
            self.violations.append("cluster versions differ")
        named = "SELECT name, disk_id, since FROM cluster_seat ORDER BY name, since"
        if (
            len(
                {tuple(process.replica.read(lambda db: db.execute(named).fetchall())) for process in self.live.values()}
            )
            > 1
        ):
            self.violations.append("voters remember different disks")
        if any(other != state for other in states.values()):
            self.violations.append("states differ")
        if len(set(state)) != len(state):
            self.violations.append("a command was applied twice")
        for op, outcomes in self.answers.items():
            self._check_answers(op, outcomes, state)

    def _check_answers(self, op: str, outcomes: list[Outcome], state: list[str]) -> None:
        process = self.asked_of.get(op)
        died = process is not None and self.live.get(process.name) is not process
        if len(outcomes) > 1 or (not outcomes and not died):
            self.violations.append(f"{op[:9]} was answered {len(outcomes)} times")
        for outcome in outcomes:
            match outcome:
                case Applied(result=[int(position), _]):
                    if state[position - 1 : position] != [op]:
                        self.violations.append(f"acknowledged {op[:9]} is lost")
                case NotApplied():
                    if op in state:
                        self.violations.append(f"denied {op[:9]} was applied")
                case OutcomeUnknown():
                    pass
                case _:
                    self.violations.append(f"{op[:9]} was answered {outcome!r}")
