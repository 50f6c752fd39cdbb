"""From the words a worker speaks to operations, and from their results to its answers. Pure."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final, assert_never

from cluster.bearer import Principal
from runner.checkpoint.ops import (
    AcceptOp,
    AdmitOp,
    ConfirmStoppedOp,
    FenceOp,
    FinishOp,
    ForfeitOp,
    LoseOp,
    Op,
)
from runner.checkpoint.results import OpResult
from worker.protocol import (
    MAX_TAIL_BYTES,
    Accept,
    Answer,
    AnswerKind,
    Answers,
    AnyReport,
    CannotTell,
    ConfirmStopped,
    FenceRequest,
    Finish,
    Forfeit,
    PermitRequest,
)

_FINAL: Final[MappingProxyType[str, AnswerKind]] = MappingProxyType(
    {
        "granted": "granted",
        "denied": "denied",
        "permit_exists": "permit_exists",
        "fenced": "fenced",
        "recorded": "recorded",
        "evidence": "evidence",
        "no_such_run": "no_such_run",
    }
)


def permit_op(who: Principal, request: PermitRequest) -> AdmitOp:
    """Return the operation of a permit request; the worker is whoever authenticated, whatever the binding says."""
    return AdmitOp(
        worker=who.name,
        binding=request.binding,
        reservation=request.reservation,
        pools=_names(who.pools),
        namespaces=_names(who.namespaces),
    )


def _names(names: frozenset[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(names))


def fence_op(worker: str, request: FenceRequest) -> FenceOp:
    """Return the operation of a worker's fence."""
    return FenceOp(request.binding.run_id, request.binding.attempt, "worker_asked", worker=worker)


def report_op(worker: str, report: AnyReport) -> Op:
    """Return the operation of a report."""
    match report:
        case Accept():
            return AcceptOp(
                worker=worker,
                run_id=report.run_id,
                attempt=report.attempt,
                incarnation=report.incarnation,
                ledger=report.ledger,
                execution_id=report.execution_id,
                started_ms=report.started_ms,
                evidence=report.evidence,
            )
        case Finish():
            return _finish(worker, report)
        case ConfirmStopped():
            return ConfirmStoppedOp(
                worker=worker,
                run_id=report.run_id,
                attempt=report.attempt,
                incarnation=report.incarnation,
                ledger=report.ledger,
                consumed=report.consumed,
                exit_code=report.exit_code,
                ended_ms=report.ended_ms,
                evidence=report.evidence,
            )
        case Forfeit():
            return ForfeitOp(worker, report.run_id, report.attempt, report.incarnation, report.ledger, report.evidence)
        case CannotTell():
            return LoseOp(
                report.run_id,
                report.attempt,
                "cannot_tell",
                worker=worker,
                ledger=report.ledger,
                evidence=report.evidence,
            )
        case _:
            assert_never(report)


def answers(results: Iterable[OpResult], *, refused: AnswerKind) -> Answers:
    """Return one final answer per result; a plain refusal becomes `refused`."""
    return Answers([Answer(_FINAL.get(one.kind, refused), one.reason, one.token) for one in results])


def _finish(worker: str, report: Finish) -> FinishOp:
    return FinishOp(
        worker=worker,
        run_id=report.run_id,
        attempt=report.attempt,
        incarnation=report.incarnation,
        ledger=report.ledger,
        succeeded=report.succeeded,
        reason=report.reason,
        exit_code=report.exit_code,
        ended_ms=report.ended_ms,
        tail="" if report.succeeded else _last_bytes(report.tail, MAX_TAIL_BYTES),
        evidence=report.evidence,
    )


def _last_bytes(text: str, limit: int) -> str:
    """Return the end of a text that fits into so many bytes of UTF-8, never half a character."""
    return text.encode("utf-8", "replace")[-limit:].decode("utf-8", "ignore")
