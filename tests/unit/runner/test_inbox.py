import asyncio

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from runner.checkpoint.ops import CloseOp, ForgetOperations, Op, Operation, Trigger
from runner.checkpoint.results import OpResult
from runner.inbox import MAX_OP_BYTES, MAX_WAITING, Inbox, answer_all, outcomes

DONE = OpResult("done")


def trigger(name: str) -> Trigger:
    return Trigger(Operation("op", name, "d"), "demo", name)


def opened() -> Inbox:
    inbox = Inbox()
    inbox.open()
    return inbox


def words(ops: list[Op]) -> list[str]:
    return [op.run_id if isinstance(op, CloseOp) else getattr(op, "name", "?") for op in ops]


async def test_nothing_queues_unless_open() -> None:
    inbox = Inbox()
    with pytest.raises(NotApplied) as refused:
        inbox.put([CloseOp("r1")])
    assert refused.value.why is Why.NOT_LEADER


async def test_urgent_goes_before_ordinary_and_each_keeps_its_order() -> None:
    inbox = opened()
    for op in (trigger("t1"), CloseOp("r1"), trigger("t2"), CloseOp("r2")):
        inbox.put([op])
    assert words([entry.op for entry in inbox.drain(3, 1_000)]) == ["r1", "r2", "t1"]
    assert words([entry.op for entry in inbox.drain(3, 1_000)]) == ["t2"]
    assert inbox.drain(3, 1_000) == []


async def test_a_drain_is_bounded_in_bytes() -> None:
    inbox = opened()
    entries = inbox.put([CloseOp(f"r{n}") for n in range(4)])
    assert len(inbox.drain(99, 2 * entries[0].size)) == 2
    assert len(inbox.drain(99, 99 * entries[0].size)) == 2


async def test_a_list_is_taken_whole_or_not_at_all() -> None:
    inbox = opened()
    inbox.put([CloseOp("r")] * (MAX_WAITING - 1))
    with pytest.raises(NotApplied) as refused:
        inbox.put([CloseOp("r")] * 2)
    assert refused.value.why is Why.QUEUE_FULL
    assert len(inbox) == MAX_WAITING - 1


@pytest.mark.parametrize("op", [CloseOp("r" * MAX_OP_BYTES), ForgetOperations(before_ms=1 << 70, limit=1)])
async def test_an_operation_that_no_command_can_hold_is_refused(op: Op) -> None:
    with pytest.raises(NotApplied) as refused:
        opened().put([op])
    assert refused.value.why is Why.TOO_LARGE


async def test_what_was_put_back_comes_first_again() -> None:
    inbox = opened()
    inbox.put([CloseOp("r1"), CloseOp("r2"), CloseOp("r3")])
    first = inbox.drain(2, 1_000)
    inbox.put_back(first)
    assert words([entry.op for entry in inbox.drain(9, 1_000)]) == ["r1", "r2", "r3"]


async def test_an_entry_whose_caller_went_away_is_never_proposed() -> None:
    inbox = opened()
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(outcomes(inbox.put([CloseOp("r1"), CloseOp("r2")])))
        stays = group.create_task(outcomes(inbox.put([CloseOp("r3")])))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        drained = inbox.drain(9, 1_000)
        assert words([entry.op for entry in drained]) == ["r3"]
        answer_all(drained, DONE)
    assert stays.result() == (DONE,)


async def test_closing_tells_every_caller_that_nothing_was_done() -> None:
    inbox = opened()
    entries = inbox.put([CloseOp("r1"), trigger("t1")])
    inbox.close(NotApplied(Why.NOT_LEADER))
    with pytest.raises(NotApplied):
        await outcomes(entries)
    assert len(inbox) == 0


@pytest.mark.parametrize(
    ("answers", "raised"),
    [
        ((DONE, NotApplied(Why.NOT_LEADER)), NotApplied),
        ((NotApplied(Why.NOT_LEADER), OutcomeUnknown(), DONE), OutcomeUnknown),
    ],
)
async def test_one_unknown_outcome_makes_the_whole_list_unknown(
    answers: tuple[OpResult | NotApplied | OutcomeUnknown, ...], raised: type[Exception]
) -> None:
    entries = opened().put([CloseOp("r")] * len(answers))
    for entry, answer in zip(entries, answers, strict=True):
        entry.answer(answer)
        entry.answer(OutcomeUnknown("a second answer is no answer"))
    with pytest.raises(raised):
        await outcomes(entries)
