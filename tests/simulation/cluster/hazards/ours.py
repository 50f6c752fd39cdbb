"""Our voters under a script: the simulator's real replicas and real files, on a network that moves nothing by itself."""

import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cluster.compaction import DEFAULT_BOUNDS, Bounds
from cluster.frames import Alive, Append, Conflict, Matched, PreVote, RequestVote, Vote, WouldVote, decode_frame
from cluster.outcome import Applied, FailStop, NotApplied, OutcomeUnknown
from cluster.pieces import Piece, PieceKept
from cluster.proposals import Outcome
from tests.simulation.cluster.hazards.rig import APPLIED, FAR_S, REFUSED, UNKNOWN, Rig
from tests.simulation.cluster.machine import appended
from tests.simulation.cluster.network import End, Network
from tests.simulation.cluster.power import write_out
from tests.simulation.cluster.recording import Sent
from tests.simulation.cluster.world import Killed, Process, World

COUNTED = (Append, Matched, Conflict, Alive, PreVote, WouldVote, RequestVote, Vote, Piece, PieceKept)
SMALL = Bounds(every_entries=4, keep_entries=0, piece_bytes=1024, window_pieces=4)
"""Compaction whenever the script lets it happen, of everything that the state holds."""
MEANS = {Applied: APPLIED, NotApplied: REFUSED, OutcomeUnknown: UNKNOWN}


class Least(Random):
    """A disk that loses all it may at power loss: of whatever may be left, the first is the least."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def randrange(self, *_: int) -> int:
        return 0


class Hand(Network):
    """A network whose frames the script carries.

    Attributes:
        heard: whether what is on its way from a voter that dies still arrives.
        sent: counted frames handed to links.
    """

    heard = False
    sent = sent_bytes = 0

    def send(self, end: End, frame: bytes) -> None:
        if end in self._up.get(frozenset((end.owner, end.peer)), ()):
            self.sent += isinstance(decode_frame(frame).message, COUNTED)
            self.sent_bytes += len(frame)
            self._history.tell(Sent(end.owner, end.peer, frame))
            if not end.silent:
                end.on_way.append((0.0, frame))

    def disconnect(self, one: str, two: str) -> None:
        ends = self._up.pop(frozenset((one, two)), ())
        for end in ends:
            while self.heard and end.on_way:
                self._deliver(end)
            end.on_way.clear()
        for end in ends:
            if end.owner in self._hosts:
                self._hosts[end.owner].disconnected(end)

    def end(self, one: str, two: str) -> End | None:
        return next((end for end in self._up.get(frozenset((one, two)), ()) if end.owner == one), None)

    def carry(self, end: End) -> object:
        message = decode_frame(end.on_way[0][1]).message
        self._deliver(end)
        return message


class OurRig(Rig):
    """A cluster of our voters.

    Attributes:
        world: the simulator's; its own clockwork stands still.
        power: a voter that dies at its fuse dies with its host's power.
        watch: called with a voter's name at each place where it may die.
    """

    beat_s = 0.06

    def __init__(
        self,
        home: Path,
        patch: pytest.MonkeyPatch,
        voters: int = 3,
        *,
        batch_bytes: int | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        super().__init__(voters)
        if batch_bytes is not None:
            patch.setattr("cluster.window.MAX_BATCH_BYTES", batch_bytes)
        self.world = World(home, 7, voters, bounds)
        self.network = Hand(self.world.random, self.world.live, self.world.history)  # type: ignore[arg-type]  # a dict is invariant
        self.world.network = self.network
        for disk in self.world.disks.values():
            disk._random = Least()
        self.power = False
        self._photos = 0
        self.watch: Callable[[str], None] = lambda _: None
        patch.setattr(Process, "point", self._watched(Process.point))
        self._told: dict[str, list[Outcome]] = defaultdict(list)

    def _watched(self, point: Callable[[Process], None]) -> Callable[[Process], None]:
        def watched(process: Process) -> None:
            self.watch(process.name)
            point(process)

        return watched

    def left(self, name: str, *, power: bool) -> Path:
        """Return a copy of what a voter's death at this instant would leave on its disk."""
        disk = self.world.disks[name]
        self._photos += 1
        left = disk.folder.with_name(f"left-{self._photos}")
        write_out(disk.files.certain() if power else disk.files.now(), left)
        return left

    def begin_again_from(self, name: str, left: Path) -> None:
        """Let a voter start anew on what a death left."""
        self.kill(name)
        folder = self.world.disks[name].folder
        shutil.rmtree(folder)
        shutil.copytree(left, folder)
        self.start(name)

    @property
    def now_s(self) -> float:  # type: ignore[override]  # the world's
        return self.world.now_s

    @now_s.setter
    def now_s(self, now_s: float) -> None:
        self.world.now_s = self.network.now_s = now_s

    # ---- processes and links

    def start(self, name: str) -> None:
        self.world.start(name)
        self.found.update(self.world.violations)
        if name in self.world.live:
            self.postpone(name)

    def kill(self, name: str, *, power: bool = False, heard: bool = False) -> None:
        self.network.heard = heard
        self.world.kill(name, power=power)
        self.network.heard = False

    def life(self, name: str) -> Process | None:
        return self.world.live.get(name)

    def process(self, name: str) -> Process:
        return self.world.live[name]

    def join(self, one: str, two: str) -> None:
        self.world.connect(one, two)
        for name in (one, two):  # who speaks first on a new link does so in its next tick
            self.tick(name)

    def cut(self, one: str, two: str) -> None:
        self.network.disconnect(one, two)

    def silence(self, one: str, two: str) -> None:
        self.network.silence(one, two)

    def on_way(self, one: str, two: str) -> int:
        end = self.network.end(one, two)
        return sum(isinstance(decode_frame(raw).message, COUNTED) for _, raw in end.on_way) if end else 0

    def deliver(self, one: str, two: str, count: int | None = None) -> int:
        end = self.network.end(one, two)
        carried = 0
        for _ in range(len(end.on_way) if end else 0):
            if end is None or not end.on_way or carried == count:
                break
            if isinstance(self.network.carry(end), COUNTED):
                carried += 1
                self.tick(two)
        return carried

    def tick(self, name: str) -> None:
        process = self.life(name)
        if process is None:
            return
        try:
            for _ in range(3):
                if not process.replica.tick():
                    break
                self.world.check(process)
        except Killed:
            self.kill(name, power=self.power, heard=True)
        except FailStop as error:
            self.found.add(f"{name} stopped: {error}")
            self.kill(name)
        else:
            self.world.check(process)
            self._note_leader(name)
        self.found.update(self.world.violations)

    def work(self, name: str) -> None:
        """Do what the voter has given to its executor."""
        process = self.process(name)
        while process.executor.waiting:
            process.work()

    def flow(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 0.02
            for name in list(self.world.live):
                for other in self.others(name):
                    end = self.network.end(other, name)
                    while end is not None and end.on_way:
                        self.network.carry(end)
                self.work(name)
                self.tick(name)

    def stand(self, name: str) -> None:
        self.postpone(name, 0.0)
        self.tick(name)

    def postpone(self, name: str, seconds: float = FAR_S) -> None:
        self._voter(name)._SyncObj__raftElectionDeadline = self.now_s + FAR_S
        self.tick(name)  # it has read what came in meanwhile: no stall is left to make up for
        if name in self.world.live:
            self._voter(name)._SyncObj__raftElectionDeadline = self.now_s + seconds

    def _voter(self, name: str) -> Any:
        return self.process(name).replica._voter

    # ---- what there is to see

    def leads(self, name: str) -> bool:
        return self.process(name).replica.leadership.role == "leader"

    def term(self, name: str) -> int:
        return self.process(name).replica.leadership.term

    def log(self, name: str) -> list[tuple[int, int]]:
        return [(entry.index, entry.term) for entry in self.process(name).log.entries]

    def state(self, name: str) -> list[str]:
        return [op.partition(" ")[0] for op in self.process(name).replica.read(appended)]

    def answers(self, op: str) -> list[str]:
        return [MEANS[type(outcome)] for outcome in self._told[op]]

    def match(self, leader: str, name: str) -> int:
        return self.process(leader).replica._voter.progress()[name][0]

    def compact(self, name: str) -> None:
        before = self.log(name)[0]
        self.now_s += 0.12
        self.tick(name)
        self.work(name)
        self.tick(name)
        assert self.log(name)[0] > before, f"{name} does not compact its log"

    def _submit(self, name: str, op: str, size: int) -> None:
        try:
            self.process(name).replica.propose(f"{op} {'x' * size}".encode(), self._told[op].append)
        except NotApplied as refused:
            self._told[op].append(refused)

    def close(self) -> None:
        for name in list(self.world.live):
            self.kill(name)
