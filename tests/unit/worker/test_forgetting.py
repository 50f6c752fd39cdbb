"""A row goes only once its last report was answered and the owner has forgotten its run (DESIGN 3.3)."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.worker.virtual_time import VirtualClock, VirtualLoop
from tests.unit.worker.world import claim
from worker.client import Unreachable
from worker.forgetting import BATCH, Forgetter
from worker.incarnation import Incarnation
from worker.ledger import Ledger
from worker.ledger_row import Command, Consume, End, Fence, KeepReceipt, Lose, NoteStop, Reserve, Settle
from worker.lineage import Lineage
from worker.outcome import Outcome, Receipt
from worker.protocol import (
    Answer,
    CannotTell,
    ConfirmStopped,
    FenceRequest,
    Fences,
    Finish,
    Forfeit,
    Permits,
    Poll,
    PollReply,
    Reports,
)
from worker.timing import DAY_S, Timing

CONSUME = Consume("i1", 7, 1.0, 60.0)
ENDED = End(Outcome(succeeded=True, reason=None, exit_code=0, ended_ms=9))
RECEIPT = KeepReceipt(Receipt(execution_id="x", started_ms=4))


@dataclass
class Owner:
    """Answers as told by run, and remembers what was said."""

    gone: set[str] = field(default_factory=set)
    away: bool = False
    said: list[Any] = field(default_factory=list)
    lineages: set[tuple[str, int]] = field(default_factory=set)

    async def reports(self, message: Reports) -> Sequence[Answer]:
        self.lineages.add((message.cluster_id, message.generation))
        return self._answers(message.items, "evidence")

    async def fences(self, message: Fences) -> Sequence[Answer]:
        self.lineages.add((message.cluster_id, message.generation))
        return self._answers(message.items, "fenced")

    async def permits(self, message: Permits) -> Sequence[Answer]:
        raise AssertionError(message)

    async def poll(self, message: Poll) -> PollReply:
        raise AssertionError(message)

    def _answers(self, items: Sequence[Any], kept: Any) -> list[Answer]:
        if self.away:
            raise Unreachable("nobody owns")
        self.said += items
        runs = [one.binding.run_id if isinstance(one, FenceRequest) else one.run_id for one in items]
        return [Answer("no_such_run" if run_id in self.gone else kept) for run_id in runs]


@dataclass
class Place:
    loop: VirtualLoop
    ledger: Ledger
    owner: Owner
    forgetter: Forgetter

    def pass_time(self, seconds: float) -> None:
        async def story() -> None:
            task = asyncio.ensure_future(self.forgetter.run())
            await asyncio.sleep(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.loop.run_until_complete(story())

    def put(self, run_id: str, *commands: Command, answer: str | None = "recorded") -> None:
        binding = replace(claim((run_id, 1), incarnation="i1", ledger="l1").binding)
        every = (Reserve(binding, "x1"), *commands, *([Settle(answer)] if answer else []))
        self.ledger.steps([((run_id, 1), command) for command in every])

    def rows(self) -> list[str]:
        found = self.ledger._db.execute("SELECT run_id FROM attempt ORDER BY run_id").fetchall()
        return [run_id for (run_id,) in found]


@pytest.fixture
def place(loop: VirtualLoop, folder: Path) -> Iterator[Place]:
    clock, timing, owner = VirtualClock(loop), Timing(), Owner()
    ledger = Ledger.open(folder / "w1", worker="w1", clock=clock, randomness=Random(1))
    life = Incarnation(worker="w1", ledger=ledger.id, life=ledger.life, lineage=Lineage("c", 3), randomness=Random(2))
    forgetter = Forgetter(ledger=ledger, admission=owner, life=life, clock=clock, timing=timing)
    yield Place(loop, ledger, owner, forgetter)
    ledger.close()


def test_a_row_outlives_its_retention_for_as_long_as_the_owner_keeps_the_run(place: Place) -> None:
    place.put("r1", CONSUME, RECEIPT, ENDED)
    place.pass_time(29.9 * DAY_S)
    assert place.owner.said == []
    place.pass_time(0.2 * DAY_S)
    assert [type(word) for word in place.owner.said] == [Finish]
    place.owner.gone.add("r1")
    place.pass_time(29.5 * DAY_S)
    assert (place.rows(), len(place.owner.said)) == (["r1"], 1), "it was asked for 30 days"
    place.pass_time(1 * DAY_S)
    assert (place.rows(), len(place.owner.said)) == ([], 2)


def test_what_has_still_to_be_answered_is_never_forgotten(place: Place) -> None:
    place.owner.gone.add("r1")
    place.put("r1", CONSUME, RECEIPT, ENDED, answer=None)
    place.put("r2", CONSUME, answer=None)
    place.pass_time(100 * DAY_S)
    assert (place.rows(), place.owner.said) == (["r1", "r2"], [])


def test_without_an_owner_nothing_is_forgotten_and_it_is_asked_until_there_is_one(place: Place) -> None:
    place.put("r1", CONSUME, RECEIPT, ENDED)
    place.owner.away = True
    place.owner.gone.add("r1")
    place.pass_time(30.1 * DAY_S)
    assert place.rows() == ["r1"]
    place.owner.away = False
    place.pass_time(61)
    assert place.rows() == []


def test_a_row_whose_answer_was_that_there_is_no_such_run_goes_unasked(place: Place) -> None:
    place.put("r1", Lose("why"), answer="no_such_run")
    place.pass_time(31 * DAY_S)
    assert (place.rows(), place.owner.said) == ([], [])


@pytest.mark.parametrize(
    ("commands", "answer", "word"),
    [
        ((CONSUME, RECEIPT, ENDED), "evidence", Finish),
        ((CONSUME, RECEIPT, NoteStop(), ENDED), "recorded", ConfirmStopped),
        ((Fence("why"),), "fenced", FenceRequest),
        ((Fence("why", permit_known=True),), "recorded", Forfeit),
        ((NoteStop(),), "recorded", ConfirmStopped),
        ((CONSUME, Lose("why")), "recorded", CannotTell),
    ],
)
def test_the_question_is_the_last_word_that_was_said(
    place: Place, commands: tuple[Command, ...], answer: str, word: type
) -> None:
    place.put("r1", *commands, answer=answer)
    place.pass_time(31 * DAY_S)
    assert [type(each) for each in place.owner.said] == [word]
    assert place.owner.lineages == {("c", 3)}, "another cluster knows no such run either, and is not believed"
    assert place.rows() == ["r1"]


def test_many_rows_go_a_batch_at_a_time(place: Place) -> None:
    for n in range(2 * BATCH + 1):
        place.put(f"r{n:04d}", CONSUME, RECEIPT, ENDED)
    place.owner.gone.update(f"r{n:04d}" for n in range(0, 2 * BATCH + 1, 2))
    place.pass_time(31 * DAY_S)
    assert place.rows() == [f"r{n:04d}" for n in range(1, 2 * BATCH + 1, 2)]
    assert len(place.owner.said) == 2 * BATCH + 1, "each was asked for once"
