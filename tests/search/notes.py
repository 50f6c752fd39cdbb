"""What workers note and say, by the product's own tables: `worker.ledger_row`, `worker.words`, `worker.earlier_lives`.

Rows and words are interned; what a command makes of a row is worked out once.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from cluster.bearer import Principal
from runner.admission.words import answers, fence_op, permit_op, report_op
from runner.checkpoint.ops import Op
from runner.checkpoint.results import OpResult
from tests.search.state import NONE, Interned, Task
from worker import earlier_lives
from worker.ledger_row import Command, Decision, Denied, LedgerRow, RowState, step
from worker.protocol import Answer, CannotTell, FenceRequest, Held, PermitRequest
from worker.words import Word, held, meaning, words

Said = Word | PermitRequest


class Letter(NamedTuple):
    """A word on its way: what it is called, whose it is, and the number of the operation that it becomes."""

    name: str
    worker: str
    ledger: str
    op: int


class Notes:
    """Ledger rows, and the words that were said of them."""

    def __init__(self, ops: Interned, *, addressable: bool) -> None:
        self._engine = _Engine(addressable=addressable)
        self.rows = Interned()
        self.words = Interned()
        self._steps: dict[tuple[int, Command], tuple[int, Decision]] = {}
        self._says: dict[int, tuple[int, ...]] = {}
        self._settled: dict[tuple[int, str], tuple[int, str]] = {}
        self._sets = Interned()
        self._ops = ops
        self._letters: dict[int, Letter] = {}

    def row(self, task: Task) -> LedgerRow | None:
        """Return the ledger's row of an attempt."""
        return self.rows[task.row]

    def step(self, task: Task, command: Command) -> tuple[Task, Decision]:
        """Return the task after one command on its row, and what the table answered."""
        key = (task.row, command)
        found = self._steps.get(key)
        if found is None:
            after, decision = step(self.rows[task.row], command, now_ms=0)
            number = NONE if after is None else self.rows.number(_bare(after))
            found = self._steps[key] = (number, decision)
        return self.with_row(task, found[0]), found[1]

    def with_row(self, task: Task, row: int) -> Task:
        """Return the task with another row: whatever that one has to say may have been sent from now on."""
        if row == task.row:
            return task
        return task._replace(row=row, said=self.add(task.said, self.says(row)))

    def says(self, row: int) -> tuple[int, ...]:
        """Return the words that a row has to say now: asking for its permit, or reporting."""
        found = self._says.get(row)
        if found is None:
            value: LedgerRow | None = self.rows[row]
            said: tuple[Said, ...] = () if value is None else words(value)
            if value is not None and value.state is RowState.RESERVED:
                said = (PermitRequest(value.binding, value.reservation),)
            found = self._says[row] = tuple(self.words.number(word) for word in said)
        return found

    def settled(self, task: Task, incarnation: str) -> Task:
        """Return the task as a new life of its ledger finds it and leaves it at the start."""
        key = (task.row, incarnation)
        if key not in self._settled:
            ledger = _OneRow(self.rows[task.row])
            resumed = earlier_lives.settle(ledger, self._engine, incarnation)
            self._settled[key] = (self.rows.number(_bare(ledger.only)), "watching" if resumed else "")
        row, hand = self._settled[key]
        return self.with_row(task, row)._replace(hand=hand)

    def add(self, said: int, more: tuple[int, ...]) -> int:
        """Return a set of words with more in it."""
        have: tuple[int, ...] = self._sets[said] or ()
        both = tuple(sorted({*have, *more}))
        return NONE if not both else self._sets.number(both)

    def each(self, task: Task) -> Iterator[int]:
        """Yield every word that was ever said of a task."""
        yield from self._sets[task.said] or ()

    def letter(self, word: int) -> Letter:
        """Return what the listener makes of a word, and who says it."""
        found = self._letters.get(word)
        if found is None:
            said: Said = self.words[word]
            if isinstance(said, PermitRequest | FenceRequest):
                worker, ledger = said.binding.worker, said.binding.ledger
                op: Op = (
                    permit_op(Principal(worker, "worker"), said)
                    if isinstance(said, PermitRequest)
                    else fence_op(worker, said)
                )
            else:
                worker, ledger = said.incarnation[:-1], said.ledger
                op = report_op(worker, said)
            name = "ask" if isinstance(said, PermitRequest) else type(said).__name__
            found = self._letters[word] = Letter(name, worker, ledger, self._ops.number(op))
        return found

    def answer(self, word: int, result: OpResult) -> Answer:
        """Return what the listener answers."""
        is_report = not isinstance(self.words[word], PermitRequest | FenceRequest)
        return answers([result], refused="evidence" if is_report else "denied").items[0]

    def hears(self, task: Task, word: int, answer: Answer) -> Task:
        """Return the task once the worker has heard the answer to a word that it is still saying."""
        said: Said = self.words[word]
        assert not isinstance(said, PermitRequest)
        command = meaning(said, answer)
        return task if command is None else self.step(task, command)[0]

    def held(self, task: Task, incarnation: str) -> Held | None:
        """Return how a poll lists a task, or None if it does not."""
        row: LedgerRow | None = self.rows[task.row]
        if row is None or row.answer is not None:
            return None
        return held(row, incarnation, resumed=bool(task.hand) and row.binding.incarnation != incarnation)

    def rowless(self, run_id: str, n: int, incarnation: str, ledger: str) -> int:
        """Return what a life says of an attempt that its ledger does not know."""
        return self.words.number(CannotTell(run_id=run_id, attempt=n, incarnation=incarnation, ledger=ledger))


def refused(decision: Decision) -> bool:
    """Return whether the ledger's table said no."""
    return isinstance(decision, Denied)


def _bare(row: LedgerRow) -> LedgerRow:
    """Return a row without what leads nowhere: its words, and which final answer it got."""
    return replace(row, evidence="", answer=None if row.answer is None else "final")


class _OneRow:
    """A ledger of one row, in memory."""

    def __init__(self, row: LedgerRow) -> None:
        self.only = row

    def unanswered(self) -> list[LedgerRow]:
        return [self.only] if self.only.answer is None else []

    def step(self, run_id: str, attempt: int, command: Command) -> Decision:
        assert (run_id, attempt) == (self.only.binding.run_id, self.only.binding.attempt)
        after, decision = step(self.only, command, now_ms=0)
        assert after is not None
        self.only = after
        return decision


class _Engine:
    """An engine whose host proves nothing about an earlier life's work; it can be asked on about it if `addressable`."""

    def __init__(self, *, addressable: bool) -> None:
        self._addressable = addressable

    def reattach(self, trace: object) -> object | None:
        return trace if self._addressable else None

    def prove(self, trace: object) -> str:
        del trace
        return ""
