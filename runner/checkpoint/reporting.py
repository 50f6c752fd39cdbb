"""What workers say of their attempts; every report gets a final answer that ends its repetition."""

from typing import TypedDict

from runner.checkpoint import attempt as attempts_of
from runner.checkpoint import attempt_words as words
from runner.checkpoint import run as runs_of
from runner.checkpoint.attempt_words import Denied, Kept
from runner.checkpoint.carrying import carry, put_attempt, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import AcceptOp, ConfirmStoppedOp, FinishOp, ForfeitOp, LoseOp
from runner.checkpoint.records import Attempt, Run
from runner.checkpoint.results import OpResult
from runner.checkpoint.run import Case
from runner.ids import instant_text

ReportOp = AcceptOp | FinishOp | ConfirmStoppedOp | ForfeitOp | LoseOp


def report(commit: Commit, op: ReportOp) -> OpResult:
    """Record what a report moves, keep as evidence what it does not."""
    found = run_with_case(commit, op.run_id)
    if found is None or not 0 < op.attempt <= len(found[1].attempts):
        return OpResult("no_such_run")
    run, case = found
    attempt = case.attempts[op.attempt - 1]
    if op.worker not in {None, attempt.worker} and attempt.worker:
        # Another worker has no such attempt, and learns nothing of it. A place that a restore made is of no worker:
        # whoever launched it after the image was taken may say so.
        return OpResult("no_such_run")
    facts = words.Facts(generation=commit.head.generation)
    reported, decision = attempts_of.step(attempt, _command(op), facts, now_ms=commit.now_ms)
    assert reported is not None, "a report makes no attempt disappear"
    if reported != attempt:
        _write(commit, run, case, reported, Cause(op.worker or commit.voter, _name(op), _why(op), _evidence(op)))
    match decision:
        case Denied(reason, _):
            return OpResult("denied", reason.value, detail={"state": attempt.state.value})
        case Kept(why):
            return OpResult("evidence", None if why is None else why.value)
        case _:
            return OpResult("recorded", again=reported == attempt)


def _write(commit: Commit, run: Run, case: Case, reported: Attempt, cause: Cause) -> None:
    attempt = case.attempts[reported.n - 1]
    if (reported.state, reported.unresolved) == (attempt.state, attempt.unresolved):
        put_attempt(commit, attempt, reported, cause)  # words and ids move no run
        return
    after, standing = runs_of.step(case, runs_of.Settle(reported), now_ms=commit.now_ms)
    assert standing is not None, "a run follows its attempts"
    carry(commit, run, case, after, cause)


def _command(op: ReportOp) -> words.Command:
    if isinstance(op, LoseOp):
        return words.Lose(why=op.why, worker=op.worker, ledger=op.ledger, words=op.evidence)
    speaker = _Speaker(worker=op.worker, incarnation=op.incarnation, ledger=op.ledger, words=op.evidence)
    match op:
        case AcceptOp():
            return words.Accept(execution_id=op.execution_id, started_ms=op.started_ms, **speaker)
        case FinishOp():
            return words.Finish(
                succeeded=op.succeeded,
                reason=op.reason,
                exit_code=op.exit_code,
                ended_ms=op.ended_ms,
                tail=op.tail,
                **speaker,
            )
        case ConfirmStoppedOp():
            return words.ConfirmStopped(consumed=op.consumed, exit_code=op.exit_code, ended_ms=op.ended_ms, **speaker)
        case ForfeitOp():
            return words.Forfeit(**speaker)


class _Speaker(TypedDict):
    worker: str
    incarnation: str
    ledger: str
    words: str


def _why(op: ReportOp) -> str | None:
    match op:
        case LoseOp():
            return op.why
        case FinishOp():
            return op.reason
        case ForfeitOp() | ConfirmStoppedOp(consumed=False):
            return words.NOT_CONSUMED
        case _:
            return None


def _evidence(op: ReportOp) -> str | None:
    """Say on what a report moves its attempt, for the trail: what was observed, and the words that came with it."""
    match op:
        case AcceptOp():
            observed = f"execution {op.execution_id}, started {instant_text(op.started_ms)}"
        case FinishOp():
            observed = f"exit code {op.exit_code}, ended {instant_text(op.ended_ms)}"
        case ConfirmStoppedOp(consumed=True):
            observed = f"exit code {op.exit_code}, ended {instant_text(op.ended_ms)}"
        case ConfirmStoppedOp():
            observed = "never consumed"
        case ForfeitOp() | LoseOp():
            observed = ""
    return "; ".join(part for part in (observed, op.evidence) if part) or None


def _name(op: ReportOp) -> str:
    tag = op.__struct_config__.tag
    assert isinstance(tag, str)
    return tag
