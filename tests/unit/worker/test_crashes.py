"""kill -9 at every place of the worker's steps: never a second submission, and the owner learns what is true."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.unit.worker.virtual_time import VirtualLoop, run
from tests.unit.worker.world import OPEN, TERMINAL, Attempt, Fuse, World
from worker.ledger import Key
from worker.protocol import AnyReport

RUN: Key = ("r1", 1)


def check(world: World) -> None:
    """What must hold whatever was killed where."""
    for key, attempt in world.owner.attempts.items():
        assert world.submitted[key] <= 1
        if attempt.state == "NotLaunched" or attempt.reason == "not_consumed":
            assert world.submitted[key] == 0, f"{key} is {attempt.state} and was launched"
        if attempt.state == "Succeeded":
            assert world.submitted[key] == 1
        if attempt.state == "Cancelled":
            assert key not in world.alive
        assert attempt.state in TERMINAL or attempt.state == "Unknown" or attempt.unresolved, attempt.state
    assert world.rows_unanswered() == 0


def places(loop: VirtualLoop, world: World, before: Callable[[World], None]) -> list[str]:
    """Return the places that an undisturbed life passes."""
    before(world)
    assert run(loop, world.life())
    check(world)
    return world.fuse.passed


def plain(world: World) -> None:
    world.owner.ready = [RUN]


def refused(world: World) -> None:
    world.owner.ready = [RUN]
    world.refuses = "no such program"


def cancelled(world: World) -> None:
    """Cancelled as soon as the engine has it."""
    world.owner.ready = [RUN]
    world.work_s = 30.0

    def cancel(_: AnyReport) -> None:
        if world.owner.attempts[RUN].state == "Accepted":
            world.owner.cancel(RUN)

    world.owner.after_report = cancel


def late(world: World) -> None:
    """The host sleeps while the permit is on its way."""
    world.owner.ready = [RUN]

    def sleep(attempt: Attempt) -> None:
        world.clock.suspended_s += 61.0 if attempt.key == RUN else 0.0

    world.owner.before_permit = sleep


STORIES = {"plain": plain, "refused": refused, "cancelled": cancelled, "late": late}


@pytest.mark.parametrize("story", STORIES)
def test_killed_at_every_place(story: str, folder: Path) -> None:
    loop = VirtualLoop()
    count = len(places(loop, World(loop, folder / "whole"), STORIES[story]))
    assert count > 10
    seen: set[str] = set()
    for at in range(count):
        world = World(loop, folder / f"cut{at}")
        STORIES[story](world)
        world.fuse = Fuse(at)
        if run(loop, world.life()):
            continue  # it ended before the fuse burnt
        before = {key: each.state for key, each in world.owner.attempts.items()}
        launched = world.submitted.copy()
        world.fuse = Fuse()
        assert run(loop, world.life()), "the second life is not killed"
        check(world)
        for key, state in before.items():
            if state in OPEN and launched[key]:
                assert world.submitted[key] == 1, "launched once, in the life that consumed it"
            seen.add(world.owner.attempts[key].state)
    loop.close()
    assert "NotLaunched" in seen
    assert "Unknown" in seen or story == "cancelled"


@pytest.mark.parametrize("seed", range(120))
def test_any_number_of_lives_with_lost_replies_and_cancels(seed: int, folder: Path) -> None:
    """Replay: pytest 'tests/unit/worker/test_crashes.py::…[SEED]'; nothing here iterates a set or hashes text."""
    loop = VirtualLoop()
    world = World(loop, folder / "w1", seed=seed)
    random = Random(seed)
    world.owner.ready = [(f"r{n}", 1) for n in range(4)]
    world.work_s = random.choice([0.0, 0.3, 3.0])
    world.submit_takes_s = random.choice([0.0, 0.2])
    world.lose_reply = lambda _: random.random() < 0.25
    for _ in range(5):
        world.fuse = Fuse(random.randrange(2, 60))
        victim = (f"r{random.randrange(4)}", random.randrange(1, 3))
        due_s = loop.time() + random.random() * 3

        def cancel_when_due(victim: Key = victim, due_s: float = due_s) -> bool:
            if loop.time() >= due_s:
                world.owner.cancel(victim)
            return world.owner.settled

        run(loop, world.life(cancel_when_due, slots=random.choice([1, 4])))
    world.fuse = Fuse()
    world.lose_reply = lambda _: False
    assert run(loop, world.life())
    loop.close()
    check(world)
