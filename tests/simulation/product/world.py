"""The whole product in one process on virtual time: voters, workers, their hosts, and what happened to them."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from cluster.bearer import Principal
from cluster.compaction import Bounds
from cluster.identity import create_disk
from cluster.outcome import FailStop
from cluster.ports import Identity
from cluster.room import boundless
from tests.simulation.cluster.disk import Disk
from tests.simulation.cluster.recording import History
from tests.simulation.product.checker import Checker
from tests.simulation.product.coverage import Coverage
from tests.simulation.product.engine import Machine, Manner, Work, draw_manner
from tests.simulation.product.hosts import HostClock, Killed
from tests.simulation.product.loop import Life, Loop, bury
from tests.simulation.product.network import Host, Network
from tests.simulation.product.operators import Operators
from tests.simulation.product.plain_disk import PlainDisk
from tests.simulation.product.plan import Plan
from tests.simulation.product.timings import TIMINGS
from tests.simulation.product.voter import IO_ERROR, OPERATORS, Voter
from tests.simulation.product.when import When
from tests.simulation.product.worker_life import WorkerProcess
from worker.protocol import Claim

CLUSTER_ID = "00000000-0000-4000-8000-000000000001"


@dataclass
class World:
    """Everything there is, and the only way to change it."""

    plan: Plan
    home: Path
    loop: Loop = field(default_factory=Loop)
    transcript: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(f"{self.plan.seed} world")
        self.network = Network(self.loop, Random(f"{self.plan.seed} network"))
        self.checker = Checker(self)
        self.coverage = Coverage()
        self.timing = TIMINGS
        self.bounds = Bounds(every_entries=150, keep_entries=60, keep_bytes=60_000, stall_s=2.0)
        self._lives: Counter[str] = Counter()
        self.voters = [f"node{rank}" for rank in range(1, self.plan.voters + 1)]
        self.workers = [f"worker{rank}" for rank in range(1, self.plan.workers + 1)]
        self.urls = [f"http://{name}" for name in self.voters]
        self.tokens = {name: f"{name:-<20}".encode() for name in (*self.workers, "operator", "recovery")}
        worker_pools = frozenset({"default", "small"})
        self.credentials = [
            *((each, self.tokens[each.name]) for each in OPERATORS),
            *((Principal(name, "worker", None, worker_pools), self.tokens[name]) for name in self.workers),
        ]
        self.live: dict[str, Voter] = {}
        self.working: dict[str, WorkerProcess] = {}
        self.buried: list[Life] = []
        self.pause_s = 0.0  # by how much the faults last longer
        self.dark_until_s = 0.0  # before that nothing starts
        self.blindly_attested: set[tuple[str, int]] = set()
        self.free = dict.fromkeys(self.voters, boundless())
        self.network.reply_lost = self.checker.crashes.reply_lost
        self.network.matters = self.checker.crashes.matters
        self.whens: list[When] = []
        self._make_hosts()
        self._make_disks()

    def _make_hosts(self) -> None:
        hosts = [*self.voters, *self.workers, *(f"{name}b" for name in self.workers), "desk"]
        self.clocks = {
            name: HostClock(self.loop, self.random.uniform(0, 500), self.random.uniform(-0.5, 0.5)) for name in hosts
        }
        for name in hosts:
            self.network.hosts[name] = Host(name)
        self.machines = {name: Machine(self, name) for name in hosts if name.startswith("worker")}

    def _make_disks(self) -> None:
        members = {name: f"{rank:032x}" for rank, name in enumerate(self.voters, start=1)}
        self.history = History()
        disk_random = Random(f"{self.plan.seed} disks")
        self.disks: dict[str, Disk | PlainDisk] = {
            name: Disk(self.home / name, name, disk_random, self.history)
            if self.plan.power
            else PlainDisk(self.home / name, name)
            for name in self.voters
        }
        for name in self.voters:
            create_disk(self.disks[name].folder, Identity(CLUSTER_ID, 1, name, members[name], members))

    # ---- small things

    def count_life(self, name: str) -> int:
        """Count the lives of a host's process; each draws from a source of its own."""
        self._lives[name] += 1
        return self._lives[name]

    def draws_power(self) -> bool:
        """Draw whether a death is that of the host."""
        return self.plan.power and self.random.random() < 0.4

    def manner_of(self, claim: Claim) -> Manner:
        """Return how the work of a claim behaves."""
        if claim.schedule == Operators.fresh:
            return Manner()
        binding = claim.binding
        what = f"{self.plan.seed} {claim.schedule} {binding.occurrence.partition('/')[0]} {binding.attempt}"
        return draw_manner(Random(what), wild=self.plan.wild)

    def note(self, what: str, **about: Any) -> None:
        """Add a line to the transcript."""
        words = " ".join(f"{key}={_text(value)}" for key, value in about.items())
        self.transcript.append(f"{self.loop.now_s - 1000:8.3f} {what} {words}".rstrip())

    def start(self, name: str) -> None:
        """Start the process of a host, unless it runs or everything is down."""
        if (
            self.loop.now_s >= self.dark_until_s
            and name in self.network.hosts
            and name not in {**self.live, **self.working}
        ):
            self._start_voter(name) if name in self.voters else self._start_worker(name)

    def kill(self, name: str, *, power: bool = False) -> None:
        """End the process of a host at this instant, if it runs."""
        self.kill_voter(name, power=power)
        self.kill_worker(name, power=power)

    def clocks_agree(self) -> None:
        """Set every wall clock to about the same time; none goes back."""
        latest_s = max(clock.skew_s for clock in self.clocks.values())
        for clock in self.clocks.values():
            clock.skew_s = latest_s + self.random.uniform(-0.3, 0.3)

    # ---- voters

    def _start_voter(self, name: str) -> None:
        self.note("start", host=name)
        voter = self.live[name] = Voter(self, name)
        try:
            voter.start()
        except Killed:
            return
        except (FailStop, Exception) as fault:  # noqa: BLE001 - a voter that cannot start is a finding
            self.checker.report(f"{name} cannot start: {fault!r}")

    def kill_voter(self, name: str, *, power: bool) -> None:
        """End a process at this instant; nothing of it acts again."""
        voter = self.live.pop(name, None)
        if voter is None or not voter.life.alive:
            return
        self.note("power lost" if power else "killed", host=name)
        voter.life.alive = False
        host = self.network.hosts[name]
        host.powered, host.serve = not power, None
        self.disks[name].die(power=power)
        self.network.died(host, voter.life, power=power)
        self.buried.append(voter.life)
        if isinstance(self.disks[name], Disk):
            self.loop.after(0.0, None, _close_stores, voter)

    def voter_ended(self, voter: Voter, why: str) -> None:
        """A voter's process ended by itself."""
        if not voter.life.alive:
            return
        self.note("voter ends", host=voter.name, why=why)
        if voter.fuse.flaw is None or IO_ERROR not in why:
            self.checker.report(f"{voter.name} ended: {why}")
        self.kill_voter(voter.name, power=False)

    # ---- workers

    def folder_of(self, host_name: str) -> Path:
        """Return where a worker's host keeps its ledger."""
        return self.home / f"{host_name}-data"

    def _start_worker(self, host_name: str) -> None:
        self.note("start", host=host_name)
        process = WorkerProcess(self, host_name, host_name.removesuffix("b"), self.folder_of(host_name))
        self.working[host_name] = process

    def is_quiet(self, key: tuple[str, int], incarnation: str) -> bool:
        """Whether nothing of an attempt is alive anywhere, and nothing of it can start any more."""
        work = self.work_of(key)
        if work is not None and work.alive:
            return False
        for process in self.working.values():
            if process.worker.incarnation == incarnation:
                row = process.ledger.row(*key)
                return row is not None and row.state.value not in {"reserved", "consumed"}
        return True

    def kill_worker(self, host_name: str, *, power: bool) -> None:
        """End a worker's process at this instant."""
        process = self.working.pop(host_name, None)
        if process is None or not process.life.alive:
            return
        self.note("power lost" if power else "killed", host=host_name)
        process.life.alive = False
        host = self.network.hosts[host_name]
        host.powered = not power
        self.network.died(host, process.life, power=power)
        process.machine.worker_died(process.life, power=power)
        self.checker.crashes.worker_died(process, process.left())
        self.buried.append(process.life)
        self.loop.after(0.0, None, process.close)

    def attempt_moved(self, state: str, worker: str) -> None:
        """An attempt of a worker came into a state: what waits for that is done."""
        due = [when for when in self.whens if when.state == state and when.worker in {"", worker}]
        for when in due:
            self.whens.remove(when)
            self.loop.after(when.delay_s, None, when.act)

    def alive_works(self) -> list[Work]:
        """Return all work that is alive anywhere."""
        return [work for machine in self.machines.values() for work in machine.works.values() if work.alive]

    def work_of(self, key: tuple[str, int]) -> Work | None:
        """Return the work of an attempt, if any began anywhere."""
        found = (machine.works.get(key) for machine in self.machines.values())
        return next((work for work in found if work is not None), None)

    # ---- the end

    def close(self) -> None:
        """End every process, and take everything apart."""
        for name in list(self.live):
            self.kill_voter(name, power=False)
        for name in list(self.working):
            self.kill_worker(name, power=False)
        self.loop.run_until_complete(_moment())
        for life in self.buried:
            bury(life)
        self.loop.close()


async def _moment() -> None:
    """Let what is due now be done."""


def _close_stores(voter: Voter) -> None:
    log, checkpoint = voter.log, voter.checkpoint
    if log is not None:
        for file in (log._wal_flush, log._db, log._mark, checkpoint._writer, checkpoint._reader):
            file.close()


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    return value if isinstance(value, str) and " " not in value else json.dumps(value, default=str)
