import asyncio

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from runner.agenda import MAX_CHAINED
from runner.calendar.planning import MAX_COUNTED
from runner.checkpoint import ops
from runner.checkpoint.records import Run, SkipRange
from runner.checkpoint.results import OpResult
from tests.unit.runner.fake_node import FakeLog
from tests.unit.runner.rows import MINUTE_MS, NOON_MS, spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import Voter, operation, running, tick, voter


def trigger(key: str, name: str = "tick") -> ops.Trigger:
    return ops.Trigger(operation(key), "demo", name)


def kinds(command: ops.Command) -> list[str]:
    return [type(op).__name__ for op in command.ops]


def test_everything_waiting_goes_into_one_command_and_each_caller_gets_its_own_result() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=3_600))
            before = len(one.log.commands)
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(one.runner.submit(trigger(f"t{n}"))) for n in range(50)]
                asked.append(group.create_task(one.runner.submit(trigger("x", "nobody"))))
            assert len(one.log.commands) == before + 1
            results = [task.result() for task in asked]
            assert [result.kind for result in results] == ["done"] * 50 + ["refused"]
            assert len({result.detail["run_id"] for result in results[:50]}) == 50
            await asyncio.sleep(0.5)
            assert len(one.log.commands) == before + 1, "nothing to do, nothing proposed"

    simulate(story)


def test_each_due_instant_is_materialised_on_time_once() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick(every_s=2))
            await asyncio.sleep(9)
            found = one.runs()
            instants = [at for row in found for at in _instants(row)]
            assert instants == [instants[0] + 2_000 * n for n in range(len(instants))]
            assert len(instants) >= 4
            late = [
                row.created_ms - row.scheduled_for_ms for row in found if isinstance(row, Run) and row.scheduled_for_ms
            ]
            assert all(0 <= ms <= 20 for ms in late)

    simulate(story)


def planned(one: Voter) -> int:
    """Count the planned instants on record."""
    return sum(row.count if isinstance(row, SkipRange) else row.trigger_id is None for row in one.runs())


def _instants(row: Run | SkipRange) -> list[int]:
    if isinstance(row, SkipRange):
        return [row.first_ms + 2_000 * n for n in range(row.count)]
    assert row.scheduled_for_ms is not None
    return [row.scheduled_for_ms]


def test_urgent_operations_go_before_the_ordinary_and_the_owners_own_come_last() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick())
            run_id = (await one.runner.submit(trigger("t1"))).detail["run_id"]
            await asyncio.sleep(1.6)
            one.node.flowing.clear()
            async with asyncio.TaskGroup() as group:
                group.create_task(one.runner.submit(trigger("t2")))
                await asyncio.sleep(0.6)  # in flight, and held there while the schedule falls due
                group.create_task(one.runner.submit(trigger("t3")))
                group.create_task(one.runner.submit(ops.CancelOp(operation("c1"), run_id)))
                await asyncio.sleep(0.01)
                mark = len(one.log.commands)
                one.node.flowing.set()
            commands = [kinds(command) for command in one.log.commands[mark:]]
            assert commands[:2] == [["Trigger"], ["CancelOp", "Trigger", "Materialise"]]

    simulate(story)


EDITS = (
    ops.SetEnabled(operation("d1"), "demo", "tick", enabled=False),
    ops.Delete(operation("d1"), "demo", "tick"),
)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: type(edit).__name__)
def test_an_edit_first_puts_on_record_what_is_due_before_it(edit: ops.Op) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick())
            one.node.flowing.clear()
            async with asyncio.TaskGroup() as group:
                group.create_task(one.runner.submit(trigger("t1")))
                await asyncio.sleep(0.9)
                mark = len(one.log.commands)
                group.create_task(one.runner.submit(edit))
                await asyncio.sleep(0.09)
                one.clock.step_ms += 3_000  # less than a step that would be doubted
                one.node.flowing.set()
            await asyncio.sleep(0.1)
            commands = one.log.commands[mark:]
            assert [kinds(command) for command in commands] == [["Trigger"], ["Materialise", type(edit).__name__]]
            made = commands[1].ops[0]
            assert isinstance(made, ops.Materialise)
            assert made.until_ms == commands[1].now_ms
            assert len(made.due) >= 3

    simulate(story)


def test_an_edit_after_a_very_long_gap_waits_until_all_of_it_is_on_record() -> None:
    async def story() -> None:
        log = FakeLog()
        one = voter(log)
        async with running(one):
            minutely = ops.AnyOf((ops.Cron("* * * * *"), ops.Cron("*/2 * * * *")))  # a union is walked over
            await one.apply(spec("tick", minutely))
        two = voter(log, name="node2")
        minutes = 2 * MAX_CHAINED * MAX_COUNTED
        two.clock.step_ms += minutes * MINUTE_MS
        async with running(two):
            disable = ops.SetEnabled(operation("d1"), "demo", "tick", enabled=False)
            assert (await two.runner.submit(disable)).kind == "done"
        assert abs(planned(two) - minutes) <= 1
        edited = [kinds(command) for command in log.commands if "SetEnabled" in kinds(command)]
        assert len(edited) == 1
        assert [kinds(command) for command in log.commands].index(edited[0]) > 3, "several commands came before it"

    simulate(story)


@pytest.mark.parametrize("why", [Why.QUEUE_FULL, Why.STORE_FULL, Why.TOO_LARGE])
def test_a_command_that_the_node_will_not_take_is_not_done_and_the_owner_goes_on(why: Why) -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            epoch = one.runner.epoch
            one.node.fail = lambda _: NotApplied(why)
            with pytest.raises(NotApplied) as refused:
                await one.apply(tick())
            assert refused.value.why is why
            assert (await one.apply(tick())).kind == "done"
            assert one.runner.epoch == epoch

    simulate(story)


def test_when_another_owner_came_between_nothing_is_done_and_it_starts_over_from_the_barrier() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            head = one.log.commands[-1]
            one.node.flowing.clear()
            async with asyncio.TaskGroup() as group:
                refused = group.create_task(_outcome(one, tick()))
                await asyncio.sleep(0.01)
                acquire = ops.Command(1, one.runner.epoch or 0, 1, head.now_ms, "node2", (ops.Acquire("node2"),))
                one.log.append(ops.encode(acquire))
                one.node.flowing.set()
            assert isinstance(refused.result(), NotApplied)
            await asyncio.sleep(0.2)
            assert one.runner.epoch == 3
            assert [kinds(command)[0] for command in one.log.commands] == ["Acquire", "Acquire", "Apply", "Acquire"]
            assert one.runs() == []
            assert (await one.apply(tick())).kind == "done"

    simulate(story)


async def _outcome(one: Voter, spec: ops.ScheduleSpec) -> OpResult | NotApplied | OutcomeUnknown:
    try:
        result: OpResult = await one.apply(spec)
    except (NotApplied, OutcomeUnknown) as fault:
        return fault
    return result


def test_a_lost_reply_is_unknown_and_the_same_key_tells_later() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            one.node.fail = one.node.lose_reply
            assert isinstance(await _outcome(one, tick()), OutcomeUnknown)
            with pytest.raises(NotApplied):
                await one.apply(tick())
            await one.driving()
            again = await one.apply(tick())
            assert (again.kind, again.again) == ("done", True)
            assert one.runner.epoch == 2

    simulate(story)


def test_lost_leadership_answers_the_proposed_as_unknown_and_the_waiting_as_not_done() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            one.node.flowing.clear()
            async with asyncio.TaskGroup() as group:
                proposed = group.create_task(_outcome(one, tick()))
                await asyncio.sleep(0.01)
                waiting = group.create_task(_outcome(one, tick("other")))
                await asyncio.sleep(0.01)
                one.node.depose("node2")
            assert isinstance(proposed.result(), OutcomeUnknown)
            assert isinstance(waiting.result(), NotApplied)
            assert not one.runner.drives
            assert one.runner.owner() == "node2"
            assert isinstance(await _outcome(one, tick()), NotApplied)

    simulate(story)


def test_stopping_the_process_answers_every_caller() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            one.node.flowing.clear()
            loop = asyncio.get_running_loop()
            asked = [loop.create_task(_outcome(one, tick()))]
            await asyncio.sleep(0.01)
            asked.append(loop.create_task(_outcome(one, tick("other"))))
            await asyncio.sleep(0.01)
        proposed, waiting = [await task for task in asked]
        assert isinstance(proposed, OutcomeUnknown)
        assert isinstance(waiting, NotApplied)

    simulate(story)


def test_a_stepped_clock_stops_the_calendar_but_not_the_callers_until_it_was_steady() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await one.apply(tick())
            await asyncio.sleep(3.5)
            made = planned(one)
            assert made >= 2
            one.clock.step_ms += 60 * MINUTE_MS
            await asyncio.sleep(5)
            assert one.runner.clock_state() == "clock_stepped"
            assert planned(one) == made
            assert (await one.runner.submit(trigger("t1"))).kind == "done"
            assert one.log.commands[-1].now_ms < NOON_MS + MINUTE_MS, "now runs on without the step"
            await asyncio.sleep(8)
            assert one.runner.clock_state() == "ok"
            assert one.log.commands[-1].now_ms > NOON_MS + 60 * MINUTE_MS
            assert planned(one) > 3_500

    simulate(story)
