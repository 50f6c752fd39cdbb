"""Most workers fall silent at once: leadership moves once, and only then is work lost (DESIGN 4: Deadlines)."""

import asyncio

import pytest

from cluster.ports import PeerStatus
from runner.checkpoint.records import Attempt, AttemptState
from runner.contacts import Contact
from runner.settings import Timing
from runner.silence import fell_together
from runner.succession import could_follow, could_move
from tests.unit.runner.fake_node import HEALTHY, FakeLog
from tests.unit.runner.rows import attempt, contact
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, running, tick, triggered, voter


def heard(**silent_s: float) -> list[Contact]:
    return [contact(name, served_s=100.0 - silent) for name, silent in silent_s.items()]


def at_work(*workers: str, state: AttemptState = AttemptState.ACCEPTED) -> list[Attempt]:
    return [attempt(f"r-{worker}", worker=worker, state=state) for worker in workers]


def together(contacts: list[Contact], attempts: list[Attempt]) -> bool:
    return fell_together(contacts, attempts, served_s=100.0, timing=Timing())


def test_two_workers_and_more_than_half_fall_together() -> None:
    assert together(heard(a=30, b=30, c=1), at_work("a", "b", "c"))
    assert together(heard(a=30, b=26, c=1), at_work("a", "b")), "their last polls were seconds apart"
    assert not together(heard(a=29, b=29), at_work("a", "b")), "nobody is to be lost yet"
    assert not together(heard(a=30), at_work("a")), "one alone"
    assert not together(heard(a=30, b=30, c=1, d=1), at_work("a", "b")), "only half"
    assert not together(heard(a=30, b=9, c=9), at_work("a", "b", "c")), "between two polls"


def test_who_was_never_heard_did_not_fall_silent() -> None:
    assert not together([], at_work("a", "b", "c"))
    assert not together(heard(a=30), at_work("a", "b", "c"))
    assert not together(heard(a=30, b=30), at_work("a", "b", "c", "d"))


def test_only_workers_with_work_to_lose_are_a_reason_and_those_long_gone_do_not_count() -> None:
    assert not together(heard(a=30, b=30, c=1), at_work("c"))
    assert not together(heard(a=30, b=30), at_work("a", "b", state=AttemptState.CLAIMED))
    unresolved = [attempt("r1", worker="a", state=AttemptState.CANCELLING, unresolved=True)]
    assert not together(heard(a=30, b=30), unresolved)
    assert not together(heard(a=30, x=90, y=90, b=1), at_work("a", "b")), "x and y went long ago"


@pytest.mark.parametrize(
    ("others", "move", "follow"),
    [
        (HEALTHY, True, True),
        ([*HEALTHY[:1], PeerStatus("node3", False, 1)], True, False),
        ([PeerStatus("node2", True, 1, "d2", "voter", full=True), PeerStatus("node3", False, 1)], False, False),
        ([PeerStatus("node2", True, 1, "d2", "catching_up"), PeerStatus("node3", False, 1)], False, False),
        ([], False, False),
    ],
)
def test_who_could_own_next(others: list[PeerStatus], move: bool, follow: bool) -> None:
    async def story() -> None:
        one = voter()
        one.node.others = others
        assert (could_move(one.node.status()), could_follow(one.node.status())) == (move, follow)

    simulate(story)


async def launched(one: Voter, *names: str) -> list[FakeWorker]:
    """Have each worker run one attempt."""
    await one.apply(*(tick(name, 3_600) for name in names))
    workers = [FakeWorker(one, name, ledger=f"l-{name}", slots=1) for name in names]
    for worker in workers:
        await triggered(one, f"t-{worker.name}", worker.name)
        await worker.launched()
    for worker in workers:
        await worker.poll()
    return workers


def reasons(one: Voter) -> set[tuple[str, str | None]]:
    return {(row.state.value, row.reason) for row in one.attempts()}


def test_leadership_moves_once_and_the_next_owner_loses_them_after_its_own_30_s() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        one.node.others = two.node.others = HEALTHY
        async with running(one, two):
            await launched(one, "a", "b", "c")
            await asyncio.sleep(40)
            assert one.node.transfers == [2.0]
            assert not one.runner.drives
            assert reasons(one) == {("Admitted", None)}, "moved instead of losing them"
            two.node.elect()
            await two.driving()
            await asyncio.sleep(29)
            assert reasons(two) == {("Admitted", None)}
            await asyncio.sleep(3)
            assert reasons(two) == {("Unknown", "worker_out_of_contact")}
            assert two.node.transfers == [], "once"

    simulate(story)


def test_who_is_back_for_the_next_owner_is_not_lost() -> None:
    async def story() -> None:
        one, two = voter(log := FakeLog()), voter(log, name="node2")
        one.node.others = two.node.others = HEALTHY
        async with running(one, two):
            workers = await launched(one, "a", "b")
            await asyncio.sleep(40)
            two.node.elect()
            await two.driving()
            for worker in workers:
                worker.voter = two
            for _ in range(12):
                for worker in workers:
                    await worker.poll()
                await asyncio.sleep(5)
            assert reasons(two) == {("Admitted", None)}

    simulate(story)


def test_an_owner_that_leads_again_after_a_move_that_failed_loses_them() -> None:
    async def story() -> None:
        one = voter()
        one.node.others = HEALTHY
        async with running(one):
            await launched(one, "a", "b")
            await asyncio.sleep(40)
            one.node.elect()
            await one.driving()
            await asyncio.sleep(35)
            assert reasons(one) == {("Unknown", "worker_out_of_contact")}
            assert one.node.transfers == [2.0]

    simulate(story)


def test_without_another_voter_or_if_others_are_heard_they_are_lost_at_once() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await launched(one, "a", "b")
            await asyncio.sleep(35)
            assert reasons(one) == {("Unknown", "worker_out_of_contact")}
        two = voter()
        two.node.others = HEALTHY
        async with running(two):
            workers = await launched(two, "a", "b", "c", "d")
            for _ in range(8):
                for worker in workers[:2]:
                    await worker.poll()
                await asyncio.sleep(5)
            assert reasons(two) == {("Unknown", "worker_out_of_contact"), ("Admitted", None)}
            assert two.node.transfers == []

    simulate(story)
