"""Accepted work of an engine that can be addressed is observed on by the next life (DESIGN 5)."""

from pathlib import Path

import pytest

from tests.unit.worker.test_crashes import check
from tests.unit.worker.virtual_time import VirtualLoop, run
from tests.unit.worker.world import Fuse, World
from worker.engine.base import Trace
from worker.engine.command import CommandEngine
from worker.ledger import Key
from worker.protocol import Accept, CannotTell, ConfirmStopped, Finish, Poll

RUN: Key = ("r1", 1)


def remote(world: World, work_s: float = 60.0) -> None:
    world.addressable = True
    world.work_s = work_s
    world.owner.ready = [RUN]


def heard(world: World) -> list[type]:
    return [type(report) for report in world.owner.attempts[RUN].heard]


def crash_when_accepted(loop: VirtualLoop, world: World) -> str:
    """Run a life until its work is accepted, kill it, and return its incarnation."""

    def accepted() -> bool:
        if RUN in world.owner.attempts and world.owner.attempts[RUN].state == "Accepted":
            world.fuse.at = len(world.fuse.passed)
        return False

    assert not run(loop, world.life(accepted)), "it was killed"
    world.fuse = Fuse()
    return world.owner.incarnation


def test_the_next_life_observes_the_work_and_reports_its_real_result(loop: VirtualLoop, world: World) -> None:
    remote(world)
    first = crash_when_accepted(loop, world)
    world.sent.clear()
    assert run(loop, world.life())
    assert world.owner.incarnation != first
    assert world.owner.attempts[RUN].state == "Succeeded"
    assert (world.submitted[RUN], world.reattached[RUN], world.alive) == (1, 1, set())
    assert heard(world) == [Accept, Finish]
    polls = [message for message in world.sent if isinstance(message, Poll)]
    assert [(row.run_id, row.phase, row.observable) for row in polls[0].held] == [("r1", "accepted", True)]
    assert world.owner.attempts[RUN].heard[-1].incarnation == first, "the life that reserved it"
    check(world)


def test_work_that_ended_while_nobody_looked_is_reported_too(loop: VirtualLoop, world: World) -> None:
    remote(world, work_s=5.0)
    crash_when_accepted(loop, world)
    run(loop, world.holds(lambda: loop.time() > world.ends_at_s[RUN] + 60))
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Succeeded"
    check(world)


def test_the_next_life_stops_it_when_it_is_cancelled(loop: VirtualLoop, world: World) -> None:
    remote(world, work_s=1e6)
    crash_when_accepted(loop, world)
    world.owner.cancel(RUN)
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Cancelled"
    assert heard(world) == [Accept, ConfirmStopped]
    check(world)


def test_a_stop_that_an_earlier_life_noted_is_said_to_the_engine_again(loop: VirtualLoop, world: World) -> None:
    remote(world, work_s=1e6)
    crash_when_accepted(loop, world)
    world.owner.cancel(RUN)
    world.stop_takes_s = 1e6

    def stopping() -> bool:
        if RUN in world.stopping:
            world.fuse.at = len(world.fuse.passed)
        return False

    assert not run(loop, world.life(stopping)), "killed while the work was being stopped"
    world.stopping.clear()  # the engine heard nothing of it
    world.stop_takes_s, world.fuse = 0.5, Fuse()
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Cancelled"
    assert world.reattached[RUN] == 2
    check(world)


def test_any_number_of_lives_may_die_observing_it(loop: VirtualLoop, world: World) -> None:
    remote(world, work_s=300.0)
    crash_when_accepted(loop, world)
    for _ in range(3):
        world.fuse = Fuse(at=12)
        assert not run(loop, world.life(lambda: False))
    world.fuse = Fuse()
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Succeeded"
    assert (world.submitted[RUN], world.reattached[RUN]) == (1, 5 - 1)
    check(world)


def test_what_is_observed_on_takes_a_slot(loop: VirtualLoop, world: World) -> None:
    remote(world)
    crash_when_accepted(loop, world)
    world.owner.ready.append(("r2", 1))
    world.sent.clear()
    assert run(loop, world.life(slots=1))
    polls = [message for message in world.sent if isinstance(message, Poll)]
    assert polls[0].slots == 0
    assert {key: world.submitted[key] for key in (RUN, ("r2", 1))} == {RUN: 1, ("r2", 1): 1}
    check(world)


def test_work_that_is_not_there_any_more_is_unknown(loop: VirtualLoop, world: World) -> None:
    remote(world, work_s=1e3)
    crash_when_accepted(loop, world)
    world.ends_at_s[RUN] = 0.0
    world.survives = "the engine knows no such execution"
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Unknown"
    assert heard(world)[-1] is CannotTell
    assert "no such execution" in world.owner.attempts[RUN].heard[-1].evidence


def test_a_stopping_worker_leaves_it_running_and_the_next_life_takes_it_up(loop: VirtualLoop, world: World) -> None:
    remote(world, work_s=1e4)
    crash_when_accepted(loop, world)
    assert run(loop, world.life(lambda: bool(world.reattached)))  # drained while it ran
    assert RUN in world.alive
    world.ends_at_s[RUN] = loop.time() + 5.0
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Succeeded"
    check(world)


@pytest.mark.parametrize("cancelled", [False, True])
def test_from_the_receipt_on_every_crash_ends_in_the_real_result(folder: Path, *, cancelled: bool) -> None:
    loop = VirtualLoop()

    def story(name: str, fuse: Fuse) -> tuple[World, bool]:
        world = World(loop, folder / name)
        remote(world, work_s=8.0)
        world.fuse = fuse

        def settled() -> bool:
            if cancelled and RUN in world.owner.attempts and world.owner.attempts[RUN].state == "Accepted":
                world.owner.cancel(RUN)
            return world.owner.settled

        ended = run(loop, world.life(settled))
        if not ended:
            world.fuse = Fuse()
            assert run(loop, world.life(settled))
        check(world)
        return world, ended

    whole, _ = story("whole", Fuse())
    assert whole.owner.attempts[RUN].state == ("Cancelled" if cancelled else "Succeeded")
    at = whole.fuse.passed.index("after commit of KeepReceipt")
    ended = False
    while not ended:
        world, ended = story(f"cut{at}", Fuse(at))
        assert world.owner.attempts[RUN].state == ("Cancelled" if cancelled else "Succeeded")
        at += 1
    before, _ = story("before", Fuse(whole.fuse.passed.index("before commit of KeepReceipt")))
    assert before.owner.attempts[RUN].state == "Unknown"
    assert not before.reattached
    loop.close()


def test_a_command_is_not_addressable(folder: Path) -> None:
    class NoClock:
        def mono_s(self) -> float:
            return 0.0

        def wall_ms(self) -> int:
            return 0

    engine = CommandEngine(folder, host_env={}, clock=NoClock())
    assert engine.reattach(Trace("r1", 1, "boot/1/2")) is None
