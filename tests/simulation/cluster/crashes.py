"""A story in which every way of dying is tried at every store operation, and what is left is opened again.

Run many by hand: `PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation.cluster.crashes SEED [LAST_SEED]`
(`make simulate-crashes SEEDS=50`). The seed is of the story and of what is drawn to be lost.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random

from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import Bounds
from cluster.installing import settle_pair
from cluster.log_store import LogStore
from cluster.outcome import FailStop
from cluster.ports import Identity
from tests.simulation.cluster.disk import Disk
from tests.simulation.cluster.machine import Appends
from tests.simulation.cluster.power import Content, partly, up_to, write_out
from tests.simulation.cluster.recording import (
    CHECKPOINT,
    CHECKPOINT_WAL,
    RAFT,
    RAFT_WAL,
    Event,
    FileSynced,
    FolderSynced,
    LogView,
    LogWritten,
    Removed,
    Renamed,
    StateWritten,
    files_watched,
    log_view,
)
from tests.simulation.cluster.world import Killed, Process, World

BOUNDS = Bounds(every_entries=12, keep_entries=4, keep_bytes=600, piece_bytes=4096, window_pieces=3, stall_s=2.0)
STORED = LogWritten | StateWritten | FileSynced | FolderSynced | Removed | Renamed
DRAWN = 2
"""How many power losses are drawn at each place, beside the least and the most fortunate one."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a voter that opens a folder finds in it, after it has put its files in order."""

    log: LogView
    applied: int
    digest: bytes


class Reopened:
    """Opens what a crash left as a start does, and applies what the log holds beyond the checkpoint."""

    def __init__(self, home: Path, identities: dict[str, Identity]) -> None:
        self._home, self._identities = home, identities
        self._seen: dict[bytes, Found | str] = {}
        self.asked = 0

    @property
    def opened(self) -> int:
        return len(self._seen)

    def find(self, voter: str, left: Content) -> Found | str:
        """Return what is found, or why the voter would not start."""
        self.asked += 1
        key = blake2b(voter.encode())
        for name, content in sorted(left.items()):
            key.update(f"{name} {len(content)} ".encode() + content)
        if key.digest() not in self._seen:
            folder = self._home / "reopened"
            write_out(left, folder)
            try:
                self._seen[key.digest()] = self._open(folder, self._identities[voter])
            except (FailStop, Exception) as error:  # noqa: BLE001 - whatever it is, the voter would not start
                self._seen[key.digest()] = repr(error)
            shutil.rmtree(folder)
        return self._seen[key.digest()]

    def _open(self, folder: Path, identity: Identity) -> Found:
        log = LogStore(folder / RAFT)
        try:
            checkpoint = CheckpointStore(folder / CHECKPOINT, identity, Appends(), log.first_index)
            try:
                settle_pair(log, checkpoint)
                for entry in log.after(checkpoint.applied_index, max(0, log.commit_index - checkpoint.applied_index)):
                    checkpoint.apply(entry)
                return Found(log_view(log._db), checkpoint.applied_index, checkpoint.digest)
            finally:
                checkpoint.close()
        finally:
            log.close()


class Crashes:
    """Stops at every event of a history that changes a file, and looks at what each way of dying leaves there.

    Attributes:
        places: where it stopped.
        problems: what was wrong, with the place.
    """

    def __init__(self, world: World, random: Random, reopened: Reopened) -> None:
        self._world, self._random, self._reopened = world, random, reopened
        self.places = 0
        self.problems: list[str] = []
        self._before: dict[str, Content] = {}
        world.history.listeners.append(self._look)

    def _look(self, event: Event) -> None:
        if not isinstance(event, STORED):
            return
        self.places += 1
        disk = self._world.disks[event.voter]
        now = disk.files.now()
        before = self._before.get(event.voter, now)
        for how, left in self._left(disk, event, before, now):
            power = how.startswith("power")
            self._judge(event, f"{how} at place {self.places}, {type(event).__name__}", left, power=power)
        self._before[event.voter] = now

    def _left(self, disk: Disk, event: Event, before: Content, now: Content) -> Iterator[tuple[str, Content]]:
        yield "kill -9", now
        yield "power loss of all that is not synced", disk.files.certain()
        for _ in range(DRAWN):
            yield "power loss", disk.files.lost(self._random)
        match event:
            case LogWritten():
                yield from self._within(before, now, RAFT_WAL)
            case StateWritten():
                yield from self._within(before, now, CHECKPOINT_WAL)
            case FileSynced(name=name) if name in {RAFT, CHECKPOINT}:
                yield from self._within_checkpoint(before, now, name)
            case _:
                pass

    def _within(self, before: Content, now: Content, name: str) -> Iterator[tuple[str, Content]]:
        """Die between two writes of a commit, or within one."""
        old, new = before.get(name, b""), now.get(name, b"")
        place = self._random.randint(0, len(new))
        yield "kill -9 within it", {**now, name: up_to(place, old, new)}

    def _within_checkpoint(self, before: Content, now: Content, name: str) -> Iterator[tuple[str, Content]]:
        """Die while a WAL, which is synced first, is copied into its file, before it is emptied."""
        wal = f"{name}-wal"
        copying = {**now, wal: before.get(wal, b"")}
        old, new = before.get(name, b""), now[name]
        for how in ("kill -9", "power loss"):
            yield f"{how} within it", {**copying, name: partly(self._random, old, new)}

    def _judge(self, event: Event, where: str, left: Content, *, power: bool) -> None:
        found = self._reopened.find(event.voter, left)
        if isinstance(found, str):
            self.problems.append(f"{event.voter} does not start after {where}: {found}")
            return
        order = self._world.order
        disk = order.disks[event.voter]
        allowed = [disk.log, disk.log_written] if power or "within" in where else [disk.log_written]
        if not any(self._is_that(found.log, log) for log in allowed):
            self.problems.append(f"{event.voter} holds {found.log} after {where}, should be one of {allowed}")
        if found.log.term < disk.said_term:
            self.problems.append(f"{event.voter} is in term {found.log.term} after {where}, spoke in {disk.said_term}")
        if found.applied > found.log.last:
            self.problems.append(f"{event.voter} has applied {found.applied} after {where}, its log ends before")
        if order.digests.get(found.applied, found.digest) != found.digest:
            self.problems.append(f"{event.voter} has another digest at {found.applied} after {where}")

    def _is_that(self, found: LogView, expected: LogView) -> bool:
        """Whether a log is the expected one, or that with an installation finished or forgotten."""
        if expected.installing is None:
            return found == expected
        index, term = expected.installing
        old = (found.first, found.terms, found.commit_index) == (expected.first, expected.terms, expected.commit_index)
        kept = expected.terms[index - expected.first + 1 :] if expected.term_at(index) == term else ()
        new = (found.first, found.terms) == (index, (term, *kept)) and found.commit_index >= index
        same_claims = (found.term, found.voted_for) == (expected.term, expected.voted_for)
        return same_claims and (old or new) and found.installing is None


def tell_story(world: World) -> None:
    """Election, batches, a conflict, compaction, a snapshot, crashes, a handover: each at least once."""
    for name in world.names:
        world.start(name)
    world.connect_all()
    _until(world, world.converged, "an election")
    first = _leader(world)
    _work(world, 5)
    _cut_off(world, first)
    late = next(name for name in world.names if name != _leader(world).name)
    world.kill(late, power=world.random.random() < 0.5)
    _compact_beyond(world, world.order.disks[late].log.last)
    world.start(late)
    world.connect_all()
    with _killed_at(world, late, world.random.randint(1, 20)):
        _until(world, lambda: _is_back(world, late) and world.converged(), "a snapshot")
    _leader(world).replica.hand_over()
    _until(world, world.converged, "a handover")
    for name in world.names:
        world.kill(name, power=world.random.random() < 0.5)
        world.start(name)
        world.connect_all()
        _until(world, world.converged, "a restart")
    _work(world, 4)
    _until(world, world.converged, "rest")
    world.check_at_end()


@contextmanager
def _killed_at(world: World, name: str, place: int) -> Iterator[None]:
    """Kill a voter at some store operation to come, so that its next life meets what it had not synced."""
    left = place

    def count(event: Event) -> None:
        nonlocal left
        if event.voter == name and isinstance(event, STORED):
            left -= 1
            if left == 0:
                death = Killed()
                death.power = False
                raise death

    world.history.listeners.append(count)
    yield
    world.history.listeners.remove(count)


def _is_back(world: World, name: str) -> bool:
    if name not in world.live:
        world.start(name)
        world.connect_all()
    return name in world.live and world.order.disks[name].log.first > 1


def _cut_off(world: World, leader: Process) -> None:
    """Let a leader append what nobody else gets; another one is elected, and the tail gives way."""
    for name in world.names:
        if name != leader.name:
            world.network.disconnect(leader.name, name)
    for _ in range(4):
        world.propose(leader.name, size=30)
    _until(world, lambda: world.leader() not in {None, leader}, "another leader")
    _work(world, 3)
    world.connect_all()
    _until(world, world.converged, "the tail to give way")


def _compact_beyond(world: World, index: int) -> None:
    for _ in range(20):
        if _leader(world).log.first_index > index:
            return
        _work(world, 6)
        world.run(0.3)
    raise AssertionError("the log is not compacted")


def _work(world: World, count: int) -> None:
    ops = [world.propose(_leader(world).name, size=10) for _ in range(count)]
    _until(world, lambda: world.acknowledged >= set(ops), "work to be done")


def _leader(world: World) -> Process:
    leader = world.leader()
    assert leader is not None
    return leader


def _until(world: World, holds: Callable[[], bool], what: str) -> None:
    assert world.run_until(holds, 20.0), f"waited in vain for {what}: {world.violations[:3]}"


def run_story(seed: int) -> tuple[World, Crashes, Reopened]:
    """Tell the story of a seed, dying everywhere; what is wrong is in the crashes and in the world."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with files_watched(), tempfile.TemporaryDirectory(dir=memory) as home:
        world = World(Path(home) / "world", seed, 3, BOUNDS)
        reopened = Reopened(Path(home), world.identities)
        crashes = Crashes(world, Random(seed), reopened)
        try:
            tell_story(world)
        except AssertionError as stopped:
            crashes.problems.append(f"the story ends early: {stopped}")
        for name in list(world.live):
            world.kill(name)
        return world, crashes, reopened


def main(first: int, last: int) -> int:
    """Print what each story finds."""
    bad = 0
    for seed in range(first, last + 1):
        world, crashes, reopened = run_story(seed)
        problems = [*world.violations, *crashes.problems]
        bad += bool(problems)
        for problem in problems[:5]:
            sys.stdout.write(f"seed {seed}: {problem}\n")
        sys.stdout.write(
            f"seed {seed}: {crashes.places} places, {reopened.asked} ways of dying, {reopened.opened} of them"
            f" different, {len(problems)} problems\n"
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[-1])))
