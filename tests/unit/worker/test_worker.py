"""Stories of one worker and its owner on virtual time, with a real ledger."""

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace

from tests.unit.worker.virtual_time import VirtualLoop, run
from tests.unit.worker.world import Attempt, World, claim
from worker.fault import LedgerBroken
from worker.ledger import Key
from worker.protocol import (
    Accept,
    AnyReport,
    CannotTell,
    ConfirmStopped,
    Finish,
    Forfeit,
    Permits,
    Poll,
    PollReply,
    Reports,
)
from worker.timing import Timing

RUN: Key = ("r1", 1)


def heard(world: World, key: Key = RUN) -> list[type]:
    return [type(report) for report in world.owner.attempts[key].heard]


def test_a_run_succeeds(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Succeeded"
    assert heard(world) == [Accept, Finish]


def test_a_poll_says_which_pools_this_process_serves(loop: VirtualLoop, world: World) -> None:
    async def polled(pools: set[str] | None) -> list[str] | None:
        with world.worker(pools=pools) as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: any(isinstance(message, Poll) for message in world.sent))
                worker.drain()
        (first, *_) = [message for message in world.sent if isinstance(message, Poll)]
        world.sent.clear()
        return first.pools

    assert run(loop, polled({"tape", "gpu"})) == ["gpu", "tape"]
    assert run(loop, polled(None)) is None


def test_the_permit_reply_is_lost_and_the_same_reservation_learns_of_the_same_permit(
    loop: VirtualLoop, world: World
) -> None:
    world.owner.ready = [RUN]
    lost = iter([True, True, False])
    world.lose_reply = lambda message: isinstance(message, Permits) and next(lost)
    assert run(loop, world.life())
    asks = [message.items[0].reservation for message in world.sent if isinstance(message, Permits)]
    assert len(asks) == 3
    assert len(set(asks)) == 1
    assert world.owner.tokens == 1
    assert world.submitted[RUN] == 1


def test_a_grant_after_its_limit_is_forfeited_even_if_the_host_slept(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]

    def sleep(attempt: Attempt) -> None:
        world.clock.suspended_s += 60.5 if attempt.key == RUN else 0.0

    world.owner.before_permit = sleep
    assert run(loop, world.life())
    assert (world.owner.attempts[RUN].state, world.owner.attempts[RUN].reason) == ("Failed", "not_consumed")
    assert heard(world) == [Forfeit]
    assert world.submitted[RUN] == 0
    assert world.owner.attempts[("r1", 2)].state == "Succeeded"


def test_without_an_answer_for_the_limit_the_attempt_is_fenced(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    begun_s = loop.time()
    world.lose_reply = lambda message: isinstance(message, Permits) and loop.time() < begun_s + 70
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].reason == "not_consumed", "the permit existed, and was given back"
    assert world.submitted[RUN] == 0


@pytest.mark.parametrize("denial", ["not_due", "frozen"])
def test_a_permit_that_may_come_later_is_asked_for_again(loop: VirtualLoop, world: World, denial: str) -> None:
    world.owner.ready = [RUN]
    world.owner.denial = denial

    def thawed() -> bool:
        if sum(isinstance(message, Permits) for message in world.sent) == 3:
            world.owner.denial = None
        return world.owner.settled

    assert run(loop, world.life(thawed))
    assert world.owner.attempts[RUN].state == "Succeeded"


def test_a_denied_permit_is_fenced_by_the_quorum(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.owner.denial = "run_cancelling"

    def told() -> bool:
        if world.owner.attempts and world.owner.attempts[RUN].state == "NotLaunched":
            world.owner.denial = None
        return world.owner.settled

    assert run(loop, world.life(told))
    assert world.owner.attempts[RUN].state == "NotLaunched"
    assert world.submitted[RUN] == 0
    assert world.owner.attempts[("r1", 2)].state == "Succeeded"


def test_a_refusal_of_the_engine_is_a_definite_failure(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.refuses = "nosuch: No such file or directory"
    assert run(loop, world.life())
    attempt = world.owner.attempts[RUN]
    assert (attempt.state, attempt.reason) == ("Failed", "refused")
    (finish,) = attempt.heard
    assert isinstance(finish, Finish)
    assert finish.tail == "nosuch: No such file or directory"


def test_an_end_that_cannot_be_proved_is_unknown_and_is_not_tried_again(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.survives = "not ended by SIGKILL: alive: process(es) 42"
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Unknown"
    assert heard(world) == [Accept, CannotTell]
    assert world.owner.attempts[RUN].heard[-1].evidence == f"outcome_unknown: {world.survives}"
    assert list(world.owner.attempts) == [RUN]


def test_a_stop_that_cannot_be_proved_stays_unresolved(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.work_s = 100.0
    world.survives = "not ended by SIGKILL: alive: process(es) 42"

    def cancel(_: AnyReport) -> None:
        if world.owner.attempts[RUN].state == "Accepted":
            world.owner.cancel(RUN)

    world.owner.after_report = cancel
    assert run(loop, world.life())
    attempt = world.owner.attempts[RUN]
    assert (attempt.state, attempt.unresolved) == ("Cancelling", True)
    assert heard(world) == [Accept, CannotTell]


def test_cancel_while_it_runs(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.work_s = 100.0

    async def story() -> None:
        async def cancel() -> None:
            await world.holds(lambda: RUN in world.owner.attempts and world.owner.attempts[RUN].state == "Accepted")
            world.owner.cancel(RUN)

        async with asyncio.TaskGroup() as group:
            group.create_task(cancel())
            group.create_task(world.life())

    begun_s = loop.time()
    run(loop, story())
    assert loop.time() - begun_s < 50, "it was stopped, not waited for"
    assert world.owner.attempts[RUN].state == "Cancelled"
    assert heard(world) == [Accept, ConfirmStopped]


def test_cancel_between_permit_and_launch_never_launches(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    asked = iter([True])

    def lost(message: object) -> bool:
        if isinstance(message, Permits) and next(asked, False):
            world.owner.cancel(RUN)  # the permit is committed, its reply is lost, and now it is Cancelling
            return True
        return False

    world.lose_reply = lost
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Cancelled"
    assert world.submitted[RUN] == 0
    assert any(isinstance(said, ConfirmStopped) and not said.consumed for said in world.owner.attempts[RUN].heard)


def test_a_stop_before_the_permit_is_heard_of_frees_the_slot_at_once(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.lose_reply = lambda message: isinstance(message, Permits)

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: world.owner.tokens == 1)
                world.owner.cancel(RUN)
                await world.holds(lambda: not worker.live, within_s=10.0)
                worker.drain()

    run(loop, story())
    assert world.owner.attempts[RUN].state == "Cancelled"
    assert world.submitted[RUN] == 0


def test_a_stop_during_submission_waits_and_then_stops_it(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.work_s, world.submit_takes_s = 100.0, 3.0

    async def story() -> None:
        async def cancel() -> None:
            await world.holds(lambda: "before submit" in world.fuse.passed)
            world.owner.cancel(RUN)

        async with asyncio.TaskGroup() as group:
            group.create_task(cancel())
            group.create_task(world.life())

    begun_s = loop.time()
    run(loop, story())
    assert world.submitted[RUN] == 1
    assert loop.time() < begun_s + 50, "it was stopped, not waited for"
    assert world.owner.attempts[RUN].state == "Cancelled"
    assert RUN not in world.alive


def test_a_claim_listed_again_is_not_started_again(loop: VirtualLoop, world: World) -> None:
    """An owner's old reply arrives late: to the ledger the attempt is known, whatever became of it."""
    world.owner.ready = [RUN]

    def again(reply: PollReply) -> PollReply:
        return replace(reply, claims=[each.claim for each in world.owner.attempts.values()])

    world.owner.alter = again
    assert run(loop, world.life(lambda: sum(isinstance(message, Poll) for message in world.sent) > 5))
    assert world.owner.settled
    assert sum(isinstance(message, Permits) for message in world.sent) == 1
    assert world.submitted[RUN] == 1


def test_completion_that_was_recorded_first_wins(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]

    def cancel(report: AnyReport) -> None:
        if isinstance(report, Finish):
            world.owner.cancel(RUN)  # committed just before the finish arrives

    world.owner.before_report = cancel
    assert run(loop, world.life())
    assert world.owner.attempts[RUN].state == "Succeeded"


def test_a_stop_without_a_row_proves_nothing(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.work_s = 100.0

    async def story() -> None:
        await world.life(lambda: RUN in world.alive)  # drains, and leaves it running
        (world.data_dir / "ledger.db").unlink()  # the disk is lost
        world.owner.attempts[RUN].state = "Cancelling"
        await world.life()

    run(loop, story())
    attempt = world.owner.attempts[RUN]
    assert (attempt.state, attempt.unresolved) == ("Cancelling", True)
    assert isinstance(attempt.heard[-1], CannotTell)
    assert "no row" in attempt.heard[-1].evidence


def test_reports_wait_on_disk_while_no_owner_answers(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.down = lambda: RUN in world.submitted and loop.time() < 1_300
    assert run(loop, world.life())
    assert loop.time() > 1_300
    assert world.owner.attempts[RUN].state == "Succeeded"
    assert world.submitted[RUN] == 1
    assert len(world.sent) < 200, "it backs off"


def test_slots_bound_what_runs_and_a_freed_slot_is_offered_at_once(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [(f"r{n}", 1) for n in range(6)]
    most = 0
    begun_s = loop.time()

    def watched() -> bool:
        nonlocal most
        most = max(most, len(world.alive))
        return world.owner.settled

    assert run(loop, world.life(watched, slots=2))
    assert most == 2
    assert loop.time() - begun_s < 3 * (world.work_s + 1.0), "no poll without room was waited out"
    assert all(attempt.state == "Succeeded" for attempt in world.owner.attempts.values())


def test_a_poll_after_a_permit_request_lists_its_reservation(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [(f"r{n}", 1) for n in range(5)]
    world.work_s = 12.0
    assert run(loop, world.life())
    asked = {
        item.binding.run_id: message.number
        for message in world.sent
        if isinstance(message, Permits)
        for item in message.items
    }
    answered = {
        item.run_id: message.number
        for message in world.sent
        if isinstance(message, Reports)
        for item in message.items
        if isinstance(item, Finish)
    }
    polls = [message for message in world.sent if isinstance(message, Poll)]
    between = [
        (poll, run_id) for poll in polls for run_id, number in asked.items() if number < poll.number < answered[run_id]
    ]
    assert between
    assert all(heard(world, key) == [Accept, Finish] for key in world.owner.attempts), "each word once"
    for poll, run_id in between:
        assert run_id in {held.run_id for held in poll.held}


def test_drain_fences_what_was_not_consumed_and_leaves_long_work_running(loop: VirtualLoop, world: World) -> None:
    world.work_s = 500.0
    world.owner.ready = [("r1", 1)]

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: RUN in world.alive)
                world.owner.denial = "not_due"
                world.owner.ready = [("r2", 1)]
                await world.holds(lambda: ("r2", 1) in world.owner.attempts and len(worker.live) == 2)
                begun_s = loop.time()
                worker.drain()
            assert 30.0 <= loop.time() - begun_s < 36.0

    run(loop, story())
    assert RUN in world.alive
    assert world.owner.attempts[("r2", 1)].state == "NotLaunched"
    assert world.owner.attempts[RUN].state == "Accepted"
    run(loop, world.life(lambda: world.owner.attempts[RUN].state != "Accepted"))
    assert world.owner.attempts[RUN].state == "Unknown"


@pytest.mark.parametrize("busy", [False, True])
def test_a_stopping_worker_says_at_once_that_it_has_no_room(loop: VirtualLoop, world: World, busy: bool) -> None:
    """Else the owner would claim for it what its held poll still offers to take."""
    world.work_s = 500.0
    world.owner.ready = [RUN] if busy else []

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: bool(world.sent) and (RUN in world.alive or not busy))
                await asyncio.sleep(1.5)
                begun_s, before = loop.time(), len(world.sent)
                worker.drain()
                await world.holds(lambda: len(world.sent) > before)
                assert loop.time() - begun_s < 0.1
                assert world.sent[before].slots == 0
                world.owner.ready = [("r2", 1)]
            assert busy or loop.time() - begun_s < 1.0

    run(loop, story())
    assert world.owner.attempts.keys() == ({RUN} if busy else set())


def test_a_claim_that_crosses_the_stop_is_given_back_at_once(loop: VirtualLoop, world: World) -> None:
    """Else it would wait for its claim deadline before another worker could have it."""

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: bool(world.sent))
                late = claim(RUN, incarnation=worker.incarnation, ledger=world.sent[0].ledger)
                world.owner.attempts[RUN] = Attempt(late)
                worker.drain()
                begun_s = loop.time()
            assert loop.time() - begun_s < 1.0

    run(loop, story())
    assert world.owner.attempts[RUN].state == "NotLaunched"
    assert world.submitted[RUN] == 0


def test_a_retired_life_ends_after_its_work_and_launches_nothing_more(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.work_s = 100.0

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await world.holds(lambda: RUN in world.alive)
                world.owner.retired = True
                world.owner.ready = [("r2", 1)]

    run(loop, story())
    assert world.owner.attempts[RUN].state == "Succeeded"
    assert world.owner.attempts[("r2", 1)].state == "NotLaunched", "it came in the same reply and was given back"
    assert world.submitted[("r2", 1)] == 0
    assert world.submitted == {RUN: 1}


@pytest.mark.parametrize("field", ["worker", "incarnation", "ledger"])
def test_a_claim_for_another_is_not_touched(loop: VirtualLoop, world: World, field: str) -> None:
    world.owner.ready = [RUN]

    def mistaken(reply: PollReply) -> PollReply:
        claims = [replace(each, binding=replace(each.binding, **{field: "another"})) for each in reply.claims]
        return replace(reply, claims=claims)

    world.owner.alter = mistaken
    run(loop, world.life(lambda: sum(isinstance(message, Poll) for message in world.sent) > 5))
    assert RUN in world.owner.attempts
    assert not any(isinstance(message, Permits) for message in world.sent)
    assert world.rows_unanswered() == 0


def test_the_words_of_a_replaced_owner_are_not_heard(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    polled = 0

    def older_and_older(reply: PollReply) -> PollReply:
        nonlocal polled
        polled += 1
        reply = replace(reply, epoch=9 - min(polled, 5))
        return reply if polled > 1 else replace(reply, claims=[])

    world.owner.alter = older_and_older
    run(loop, world.life(lambda: polled > 10))
    assert not any(isinstance(message, Permits) for message in world.sent)
    assert {message.epoch for message in world.sent if isinstance(message, Poll)} == {0, 8}


def test_a_broken_ledger_ends_the_worker_itself(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]

    async def story() -> None:
        with world.worker() as worker:
            worker._ledger._db.execute("PRAGMA query_only = ON")
            await worker.run()

    with pytest.raises(LedgerBroken, match="readonly"):
        run(loop, story())
    assert not world.submitted


def test_cancelling_the_worker_leaves_work_and_row_alone(loop: VirtualLoop, world: World) -> None:
    world.owner.ready = [RUN]
    world.work_s = 500.0

    async def story() -> None:
        with world.worker() as worker:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(worker.run())
                await world.holds(lambda: RUN in world.alive)
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            row = worker._ledger.row(*RUN)
            assert row is not None
            assert row.state.value in {"consumed", "accepted"}

    run(loop, story())
    assert RUN in world.alive


@pytest.mark.parametrize("slots", [0, -1, 1001])
def test_slots_out_of_range_stop_the_start(world: World, slots: int) -> None:
    with pytest.raises(ValueError, match=f"slots is {slots}"), world.worker(slots=slots, timing=Timing()):
        pass
