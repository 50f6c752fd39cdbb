"""The persistence cases of behaviour.md that no other test is the shape of; README.md lists them all."""

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from cluster.identity import FolderLock
from cluster.node import Node
from cluster.outcome import Unfit
from cluster.ports import Timing
from tests.simulation.cluster.machine import Appends, appended
from tests.simulation.cluster.world import Process, VirtualClock, World

NAMES = ("node1", "node2", "node3")


def working(home: Path, seed: int = 7) -> tuple[World, Process]:
    """Return three voters and their leader."""
    world = World(home, seed, len(NAMES))
    for name in world.names:
        world.start(name)
    world.connect_all()
    assert world.run_until(lambda: world.leader() is not None and world.converged(), 5.0)
    leader = world.leader()
    assert leader is not None
    return world, leader


def committed(world: World, leader: Process, commands: int) -> list[str]:
    asked = [world.propose(leader.name) for _ in range(commands)]
    assert world.run_until(lambda: world.acknowledged >= set(asked), 3.0)
    return asked


def connect_to_the_living(world: World, name: str) -> None:
    for other in world.live:
        if other != name:
            world.connect(*sorted((name, other)))


@pytest.mark.parametrize("order", [*permutations(NAMES)], ids="-".join)
def test_c70_after_a_power_cut_of_all_any_order_of_starts_finds_everything(tmp_path: Path, order: list[str]) -> None:
    world, leader = working(tmp_path)
    asked = committed(world, leader, 25)
    late = [world.propose(leader.name) for _ in range(5)]
    world.step()
    terms = {name: process.log.term for name, process in world.live.items()}
    for name in NAMES:
        world.kill(name, power=True)
    for name in order:
        world.start(name)
        connect_to_the_living(world, name)
        assert world.live[name].log.term >= terms[name]
        world.run(0.6)
    assert world.run_until(world.converged, 20.0)
    world.check_at_end()
    assert world.violations == []
    state = world.live["node1"].replica.read(appended)
    assert state[:25] == asked
    assert set(state[25:]) <= set(late)


@pytest.mark.parametrize("seed", range(4))
def test_c70_a_voter_that_loses_power_just_after_it_voted_still_knows_its_vote(tmp_path: Path, seed: int) -> None:
    world, leader = working(tmp_path, seed)
    committed(world, leader, 3)
    standing = {name: (process.log.term, process.log.voted_for) for name, process in world.live.items()}
    del standing[leader.name]
    world.kill(leader.name)

    def voted() -> list[str]:
        return [name for name, before in standing.items() if now_of(name) != before and now_of(name)[1] != name]

    def now_of(name: str) -> tuple[int, str | None]:
        return world.live[name].log.term, world.live[name].log.voted_for

    assert world.run_until(lambda: bool(voted()), 5.0)
    voter = voted()[0]
    told = now_of(voter)
    world.kill(voter, power=True)
    world.start(voter)
    assert now_of(voter) == told
    world.start(leader.name)
    world.connect_all()
    assert world.run_until(world.converged, 20.0)
    world.check_at_end()
    assert world.violations == [], "among others: no term has two leaders"


def opened(folder: Path, **different: object) -> Node:
    """Open a voter's folder as its own program does, but for what is different."""
    world = World(folder.parent / "world", 1, len(NAMES))
    identity = world.identities["node1"]
    as_usual: dict[str, object] = {
        "name": "node1",
        "cluster_id": identity.cluster_id,
        "members": NAMES,
        "machine": Appends(),
        "clock": VirtualClock(world, "node1"),
        "randomness": Random(1),
        "timing": Timing(),
    }
    return Node.open(folder, **{**as_usual, **different})


def sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def crashed(home: Path) -> tuple[Path, int]:
    """Return a voter's folder with history as kill -9 leaves it, and where its log ends."""
    world, leader = working(home)
    committed(world, leader, 20)
    last_index = world.live["node1"].log.last_index
    world.kill("node1")
    folder = world.disks["node1"].folder
    (folder / "lock").touch()
    return folder, last_index


def newer_format(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "raft.db", isolation_level=None)) as db:
        db.execute("UPDATE identity SET format = format + 1")


def locked(folder: Path) -> FolderLock:
    return FolderLock.take(folder)


def not_writable(folder: Path) -> None:
    (folder / "lock").unlink(missing_ok=True)
    (folder / "lock").mkdir()  # even root cannot open that to write


SPOILT: dict[str, tuple[Callable[[Path], object], dict[str, object], str]] = {
    "wrong node": (lambda _: None, {"name": "node2"}, "voter"),
    "wrong cluster": (lambda _: None, {"cluster_id": "11111111-0000-4000-8000-000000000001"}, "cluster"),
    "other members": (lambda _: None, {"members": ("node1", "node2", "node4")}, "members"),
    "newer format": (newer_format, {}, "start the version that wrote it"),
    "a second process": (locked, {}, "another process"),
    "a folder that cannot be written": (not_writable, {}, "lock"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_c76_a_start_that_must_fail_says_why_and_changes_not_one_byte(tmp_path: Path, what: str) -> None:
    """The folder is as a crash has left it: what was written last stands in the WALs only."""
    folder, _ = crashed(tmp_path)
    spoil, different, word = SPOILT[what]
    held = spoil(folder)
    before = sums(folder)
    with pytest.raises(Unfit, match=word) as refused:
        opened(folder, **different)
    assert "\n" not in str(refused.value)
    assert sums(folder) == before
    if isinstance(held, FolderLock):
        held.release()


def test_c76_without_such_a_fault_the_same_folder_opens(tmp_path: Path) -> None:
    folder, last_index = crashed(tmp_path)
    node = opened(folder)
    assert node.status().last_index == last_index
    node._replica.close()
    node._executor.shutdown()
    node._lock.release()
