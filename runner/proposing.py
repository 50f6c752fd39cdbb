"""How a draft becomes durable: one command, or ever smaller ones while an operation in it cannot be applied.

The leader tries a command before it appends it, and refuses it as a whole. Halving finds the operation that no voter
could bear; all others are applied, in their order. They would have seen the same rows in one command.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from cluster.outcome import NotApplied, Why
from runner.aside import ASIDE_S, subject_of
from runner.checkpoint import ops
from runner.checkpoint.ops import Op
from runner.checkpoint.results import OpResult, from_builtins
from runner.inbox import Entry, answer_all
from runner.ports import Node
from runner.settings import Timing
from runner.tenure import Overtaken, Tenure

MAX_REFUSED: Final = 100
"""Refused commands of one turn; what is not proposed by then waits, or is not done."""

CANNOT_BE_APPLIED: Final = "cannot_be_applied"

_HALVED: Final = frozenset({Why.FAILED_TRIAL, Why.TOO_LARGE})

_log = structlog.get_logger("runner.proposing")


@dataclass(frozen=True, slots=True)
class Slot:
    """An operation and its place in a command.

    Attributes:
        entry: of the caller that waits for its result; None for an own operation.
        needs: ids of the schedules whose past has to be on record before: it must not be applied otherwise.
    """

    op: Op
    entry: Entry | None = None
    needs: frozenset[str] = frozenset()


class Proposer:
    """Proposes for one voter; each caller whose operation was proposed here gets its answer here."""

    def __init__(self, *, node: Node, name: str, timing: Timing, before_each: Callable[[], None]) -> None:
        """Wire it.

        Args:
            node: where commands become durable.
            name: this voter's name, the actor of its commands.
            timing: how long a command may wait.
            before_each: called before each command, since many small ones are no sign of being stuck.
        """
        self._node = node
        self._name = name
        self._timing = timing
        self._before_each = before_each

    async def propose(self, tenure: Tenure, slots: Sequence[Slot], now_ms: int) -> list[tuple[Op, OpResult]]:
        """Commit operations in order and return the results of those that were applied.

        Raises:
            Overtaken: another owner's command came between.
            NotApplied: the node takes no command now; callers that are not answered yet were not proposed.
            OutcomeUnknown: of the command just proposed; the callers of later ones are told that theirs were not.
        """
        parts, done = [list(slots)], list[tuple[Op, OpResult]]()
        refused, unrecorded = 0, set[str]()
        try:
            while parts:
                part = _bearable(parts.pop(), unrecorded)
                try:
                    done += await self._commit(tenure, part, now_ms) if part else ()
                except NotApplied as why:
                    if why.why not in _HALVED:
                        raise
                    refused += 1
                    if len(part) == 1:
                        unrecorded |= _set_aside(part[0], tenure, why)
                    elif refused < MAX_REFUSED:
                        parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                    else:
                        parts.append(part)
                        return done
        finally:
            left = [slot for part in parts for slot in part]
            answer_all(_callers(left), NotApplied(Why.QUEUE_FULL, "the owner did not come to propose this"))
        return done

    async def _commit(self, tenure: Tenure, slots: Sequence[Slot], now_ms: int) -> list[tuple[Op, OpResult]]:
        self._before_each()
        command = ops.Command(
            version=ops.VERSION,
            expect_epoch=tenure.epoch,
            expect_revision=tenure.revision,
            now_ms=now_ms,
            actor=self._name,
            ops=tuple(slot.op for slot in slots),
        )
        applied = await self._node.propose(ops.encode(command), self._timing.propose_s, ops.VERSION)
        result = from_builtins(applied.result)
        if result.verdict != "applied":
            answer_all(_callers(slots), _overtaken())
            raise Overtaken(f"{result.verdict}: the checkpoint is at epoch {result.epoch}, revision {result.revision}")
        tenure.revision, tenure.now_ms = result.revision, result.now_ms
        for slot, answer in zip(slots, result.results, strict=True):
            if slot.entry is not None:
                slot.entry.answer(answer)
        return [(slot.op, answer) for slot, answer in zip(slots, result.results, strict=True)]


def _bearable(slots: Sequence[Slot], unrecorded: set[str]) -> list[Slot]:
    """Leave out the edits of schedules whose past could not be put on record: they would lose it without a trace."""
    held = [slot for slot in slots if slot.needs & unrecorded]
    answer_all(_callers(held), NotApplied(Why.FAILED_TRIAL, "what is due of the schedule cannot be put on record"))
    return [slot for slot in slots if not slot.needs & unrecorded]


def _set_aside(slot: Slot, tenure: Tenure, why: NotApplied) -> set[str]:
    """Tell the culprit's caller, or name an own one; returns the schedule whose past it would have recorded."""
    if slot.entry is not None:
        # A worker's word is answered like the others of its list, which would go unheard for it.
        is_change = isinstance(slot.op, ops.Change)
        slot.entry.answer(why if is_change else OpResult("denied", CANNOT_BE_APPLIED))
        return set()
    subject = subject_of(slot.op)
    if tenure.aside.put(subject, tenure.served.served_s):
        _log.error("own operation set aside", op=subject[0], of=".".join(subject[1:]), for_s=ASIDE_S, fault=str(why))
    return {slot.op.schedule_id} if isinstance(slot.op, ops.Materialise) else set()


def _callers(slots: Iterable[Slot]) -> list[Entry]:
    return [slot.entry for slot in slots if slot.entry is not None]


def _overtaken() -> NotApplied:
    return NotApplied(Why.NOT_LEADER, "another owner's command came between; nothing of this one was applied")
