"""What waits for the loop's next turn: bounded, in order, urgent before ordinary."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from runner.checkpoint.ops import Apply, Backfill, Delete, Op, SetEnabled, Trigger
from runner.checkpoint.results import OpResult

MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 16 << 20
MAX_OP_BYTES: Final = 2 << 20  # half of what a command may hold; the owner adds little of its own

_ORDINARY: Final = (Apply, SetEnabled, Delete, Trigger, Backfill)
_encoder = msgspec.msgpack.Encoder()

Outcome = OpResult | NotApplied | OutcomeUnknown


@dataclass(slots=True, eq=False)
class Entry:
    """One caller's op and where its outcome goes; a value either way, so that nobody need look at it."""

    op: Op
    size: int
    outcome: asyncio.Future[Outcome] = field(repr=False)

    def answer(self, outcome: Outcome) -> None:
        """Tell the caller, unless it went away."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Inbox:
    """Two lanes of entries, closed unless this voter drives: nothing queues for an owner that may come later."""

    def __init__(self) -> None:
        self._open = False
        self._ordinary_closed: NotApplied | None = None
        self._urgent: deque[Entry] = deque()
        self._ordinary: deque[Entry] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many entries wait."""
        return len(self._urgent) + len(self._ordinary)

    def open(self) -> None:
        """Let entries in, from now until `close`."""
        self._open, self._ordinary_closed = True, None

    def close(self, why: NotApplied) -> None:
        """Let nothing more in; what waits was proposed to nobody, and its callers are told so."""
        self._open = False
        for entry in (*self._urgent, *self._ordinary):
            entry.answer(why)
        self._urgent.clear()
        self._ordinary.clear()
        self._bytes = 0

    def close_ordinary(self, why: NotApplied) -> None:
        """Let nothing ordinary in any more, until `open`; what waits of it is answered."""
        self._ordinary_closed = why
        for entry in self._ordinary:
            entry.answer(why)
        self._bytes -= sum(entry.size for entry in self._ordinary)
        self._ordinary.clear()

    def put(self, ops: Sequence[Op]) -> list[Entry]:
        """Queue the ops of one caller, all or none.

        Raises:
            NotApplied: this voter does not drive, the queue is full, or an op is larger than a command may be.
        """
        if not self._open:
            raise NotApplied(Why.NOT_LEADER, "this voter does not own the checkpoint")
        if self._ordinary_closed is not None and any(isinstance(op, _ORDINARY) for op in ops):
            raise NotApplied(self._ordinary_closed.why, self._ordinary_closed.detail)
        try:
            sizes = [len(_encoder.encode(op)) for op in ops]
        except OverflowError as fault:
            raise NotApplied(Why.TOO_LARGE, "a number in one operation is larger than a command can hold") from fault
        if any(size > MAX_OP_BYTES for size in sizes):
            raise NotApplied(Why.TOO_LARGE, f"one operation is over {MAX_OP_BYTES} bytes")
        if len(self) + len(ops) > MAX_WAITING or self._bytes + sum(sizes) > MAX_WAITING_BYTES:
            raise NotApplied(Why.QUEUE_FULL, "the owner has too much waiting")
        loop = asyncio.get_running_loop()
        entries = [Entry(op, size, loop.create_future()) for op, size in zip(ops, sizes, strict=True)]
        for entry in entries:
            self._lane(entry).append(entry)
        self._bytes += sum(sizes)
        return entries

    def drain(self, max_ops: int, max_bytes: int) -> list[Entry]:
        """Take what fits, urgent first, each lane in order; an entry whose caller went away is dropped unproposed."""
        taken: list[Entry] = []
        room = max_bytes
        for lane in (self._urgent, self._ordinary):
            while lane and len(taken) < max_ops and lane[0].size <= room:
                entry = lane.popleft()
                self._bytes -= entry.size
                if not entry.outcome.done():
                    taken.append(entry)
                    room -= entry.size
        return taken

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Return drained entries, not proposed yet, to the front of their lanes in the order given."""
        for entry in reversed(tuple(entries)):
            self._lane(entry).appendleft(entry)
            self._bytes += entry.size

    def _lane(self, entry: Entry) -> deque[Entry]:
        return self._ordinary if isinstance(entry.op, _ORDINARY) else self._urgent


def answer_all(entries: Iterable[Entry], outcome: Outcome) -> None:
    """Tell every caller of a command the same."""
    for entry in entries:
        entry.answer(outcome)


async def outcomes(entries: Sequence[Entry]) -> tuple[OpResult, ...]:
    """Wait for all entries of one caller.

    Blocks: until the loop answered each; the loop answers everything it took or closes. A cancelled caller's entries
    that were not proposed yet never are; for those that were, the outcome is unknown to it.

    Raises:
        OutcomeUnknown: of at least one.
        NotApplied: of at least one, and no outcome is unknown; others of the list may be done, each is idempotent.
    """
    try:
        answers = [await entry.outcome for entry in entries]
    except asyncio.CancelledError:
        for entry in entries:
            entry.outcome.cancel()
        raise
    for kind in (OutcomeUnknown, NotApplied):
        for fault in _faults(answers, kind):
            raise fault
    return tuple(answer for answer in answers if isinstance(answer, OpResult))


def _faults(answers: Iterable[Outcome], kind: type[NotApplied | OutcomeUnknown]) -> Iterator[Exception]:
    return (answer for answer in answers if isinstance(answer, kind))
