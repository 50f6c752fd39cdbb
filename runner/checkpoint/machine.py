"""The state machine that every voter applies: one compare-and-set on one register, made of small total ops."""

import sqlite3
from dataclasses import replace
from typing import Final

import msgspec

from runner.checkpoint import (
    admitting,
    attesting,
    backfilling,
    deleting,
    ending,
    freezing,
    materialising,
    operations,
    ops,
    pruning,
    queries,
    redelivering,
    reporting,
    restoring,
    results,
    scheduling,
    schema,
)
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Change, Op
from runner.checkpoint.records import Head
from runner.checkpoint.results import CommandResult, OpResult
from runner.ids import EARLIEST_INSTANT_MS, LATEST_INSTANT_MS

TABLES: Final = schema.TABLES


class Checkpoint:
    """Ownership and admissions in one register; implements `cluster.ports.StateMachine`."""

    version = ops.VERSION

    def __init__(self, cluster_id: str, generation: int = 1) -> None:
        self._cluster_id = cluster_id
        self._generation = generation

    def create(self, db: sqlite3.Connection) -> None:
        """Create the tables in an empty database, inside the caller's transaction."""
        for statement in schema.STATEMENTS:
            db.execute(statement)
        db.execute("INSERT INTO head VALUES (1, ?, ?, 0, NULL, 0, 0, 0, 0, NULL)", (self._cluster_id, self._generation))
        db.execute("INSERT INTO pools VALUES (?, ?, 0)", (scheduling.DEFAULT_POOL, scheduling.DEFAULT_POOL_LIMIT))

    def apply(self, db: sqlite3.Connection, command: bytes) -> object:
        """Apply one committed command inside the caller's transaction; total.

        If epoch or revision differ nothing is applied. Otherwise each op is applied or refused on its own and sees
        the ops before it, and the revision grows by one.

        Returns:
            `results.to_builtins` of a `CommandResult`.

        Raises:
            FailStop: the command has a version, op or field that this program does not know.
        """
        return results.to_builtins(_apply(db, ops.decode(command)))


def _apply(db: sqlite3.Connection, command: ops.Command) -> CommandResult:
    head = queries.head(db)
    if command.expect_epoch != head.epoch:
        return CommandResult("stale", head.epoch, head.revision, head.now_ms)
    if command.expect_revision != head.revision:
        return CommandResult("conflict", head.epoch, head.revision, head.now_ms)
    # Never back, and never beyond what an instant can be: the checkpoint's now only grows.
    now_ms = max(head.now_ms, min(command.now_ms, LATEST_INSTANT_MS - _HEADROOM_MS))
    commit = Commit(db, replace(head, revision=head.revision + 1, now_ms=now_ms), command.actor)
    answers = tuple(_answer(commit, op) for op in command.ops)
    _put_head(db, commit.head)
    return CommandResult("applied", commit.head.epoch, commit.head.revision, now_ms, answers)


def _answer(commit: Commit, op: Op) -> OpResult:
    if not _is_storable(op):
        return OpResult("refused", "out_of_range")
    if commit.head.owner is None and not isinstance(op, ops.Acquire):
        return OpResult("refused", "no_owner")
    result = _dispatch(commit, op)
    return msgspec.structs.replace(result, changed=commit.take_changed())


def _dispatch(commit: Commit, op: Op) -> OpResult:
    if isinstance(op, Change):
        return operations.once(commit, op.operation, lambda: _changed(commit, op))
    match op:
        case ops.AcceptOp() | ops.FinishOp() | ops.ConfirmStoppedOp() | ops.ForfeitOp() | ops.LoseOp():
            return reporting.report(commit, op)
        case ops.ClaimOp() | ops.AdmitOp() | ops.FenceOp():
            return _admission(commit, op)
        case _:
            return _own(commit, op)


def _admission(commit: Commit, op: ops.ClaimOp | ops.AdmitOp | ops.FenceOp) -> OpResult:
    match op:
        case ops.ClaimOp():
            return admitting.claim(commit, op)
        case ops.AdmitOp():
            return admitting.admit(commit, op)
        case ops.FenceOp():
            return admitting.fence(commit, op)


def _own(
    commit: Commit, op: ops.Acquire | ops.Materialise | ops.Prune | ops.CloseOp | ops.ForgetOperations
) -> OpResult:
    """What the owner proposes by itself."""
    match op:
        case ops.Acquire():
            return _acquire(commit, op)
        case ops.Materialise():
            return materialising.materialise(commit, op)
        case ops.Prune():
            return pruning.prune(commit, op)
        case ops.CloseOp():
            return ending.close(commit, op)
        case ops.ForgetOperations():
            return operations.forget(commit, op)


def _changed(commit: Commit, op: Change) -> OpResult:
    match op:
        case ops.Apply() | ops.SetEnabled() | ops.Delete() | ops.Trigger() | ops.Backfill():
            return _schedule_changed(commit, op)
        case ops.CancelOp():
            return ending.cancel(commit, op)
        case ops.AttestOp():
            return attesting.attest(commit, op)
        case ops.AttestIncarnationOp():
            return attesting.attest_incarnation(commit, op)
        case ops.Redeliver():
            return redelivering.redeliver(commit, op)
        case ops.SetFrozen() | ops.Restore() | ops.AcceptClock():
            return _all_changed(commit, op)


def _all_changed(commit: Commit, op: ops.SetFrozen | ops.Restore | ops.AcceptClock) -> OpResult:
    """What concerns every schedule."""
    match op:
        case ops.SetFrozen():
            return freezing.set_frozen(commit, op)
        case ops.Restore():
            return restoring.restore(commit, op)
        case ops.AcceptClock():
            commit.event(Cause(op.operation.principal, "accept_clock", "the clocks as they stand are meant"))
            return OpResult("done")


def _schedule_changed(
    commit: Commit, op: ops.Apply | ops.SetEnabled | ops.Delete | ops.Trigger | ops.Backfill
) -> OpResult:
    match op:
        case ops.Apply():
            return scheduling.apply(commit, op)
        case ops.SetEnabled():
            return scheduling.set_enabled(commit, op)
        case ops.Delete():
            return deleting.delete(commit, op)
        case ops.Trigger():
            return scheduling.trigger(commit, op)
        case ops.Backfill():
            return backfilling.backfill(commit, op)


def _acquire(commit: Commit, op: ops.Acquire) -> OpResult:
    before = commit.head.owner
    commit.head = replace(commit.head, epoch=commit.head.epoch + 1, owner=op.owner)
    commit.note("head")
    commit.event(Cause(op.owner, "acquire", f"epoch {commit.head.epoch}"), from_state=before, to_state=op.owner)
    return OpResult("done", detail={"owner": op.owner, "epoch": commit.head.epoch})


def _put_head(db: sqlite3.Connection, head: Head) -> None:
    db.execute(
        "UPDATE head SET generation = ?, epoch = ?, owner = ?, revision = ?, now_ms = ?, token_counter = ?,"
        " frozen = ?, restored_ms = ?",
        (
            *(head.generation, head.epoch, head.owner, head.revision, head.now_ms, head.token_counter),
            *(head.frozen, head.restored_ms),
        ),
    )


_HEADROOM_MS: Final = 7 * 24 * 3_600_000
"""What is ever added to now (a window, a pause, a rounding) stays an instant."""


def _is_storable(value: object) -> bool:
    """Return whether every integer in an op fits the tables and can be written as an instant where it is one."""
    if isinstance(value, int):
        return EARLIEST_INSTANT_MS <= value <= LATEST_INSTANT_MS
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    # Most of what an op holds is text: not to look at each costs half of it all.
    return not isinstance(value, tuple) or all(type(item) is str or _is_storable(item) for item in value)
