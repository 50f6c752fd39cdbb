"""A human's statement of quiescence: about one attempt, or about all that one lost process life left."""

from collections.abc import Sequence
from typing import Final

from runner.checkpoint import attempt as attempts_of
from runner.checkpoint import attempt_words as words
from runner.checkpoint import run as runs_of
from runner.checkpoint import uncertain
from runner.checkpoint.attempt_words import Denied
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import AttestIncarnationOp, AttestOp
from runner.checkpoint.records import Attempt, Run, RunState
from runner.checkpoint.results import OpResult

MAX_ATTESTATION_CHARS: Final = 4096
MAX_ATTESTED: Final = 1_000
"""Attempts in one statement: each voter applies it in one piece, and is deaf meanwhile."""

_Op = AttestOp | AttestIncarnationOp


def attest(commit: Commit, op: AttestOp) -> OpResult:
    """Record a named human's statement that nothing of an attempt is alive; retires its incarnation."""
    found = run_with_case(commit, op.run_id)
    if found is None or not 0 < op.attempt <= len(found[1].attempts):
        return OpResult("refused", "no_such_run" if found is None else "no_such_attempt")
    if _is_too_long(op):
        return OpResult("refused", "attestation_too_long")
    run, case = found
    attempt = case.attempts[op.attempt - 1]
    settled = _settled(commit, run, case, op, op.row_revision, attempt)
    if isinstance(settled, Denied):
        detail = {"state": attempt.state.value, "row_revision": attempt.revision}
        return OpResult("refused", settled.reason.value, detail=detail)
    _retire(commit, attempt.worker, attempt.incarnation)
    detail = {"run_id": op.run_id, "attempt": op.attempt, "state": "Quiesced"}
    return OpResult("done", detail={**detail, "run_state": settled.value})


def attest_incarnation(commit: Commit, op: AttestIncarnationOp) -> OpResult:
    """Record one statement about every attempt that a lost incarnation left uncertain, all or nothing; retires it.

    Refused unless what the attester listed is exactly what can be attested, row by row: nobody attests what they did
    not read. Refused (`still_open`) while anything of that incarnation may still be reported: it is not lost yet.
    """
    refusal = _refusal(commit, op)
    if refusal is not None:
        return refusal
    attested = []
    for row in op.attempts:
        found = run_with_case(commit, row.run_id)
        assert found is not None, "it was listed a moment ago"
        run, case = found
        attempt = case.attempts[row.attempt - 1]
        # Its revision was compared above; an attempt of the same run that came before may have moved it since.
        settled = _settled(commit, run, case, op, attempt.revision, attempt)
        assert isinstance(settled, RunState), settled
        attested.append({"run_id": row.run_id, "attempt": row.attempt, "state": "Quiesced", "run_state": settled.value})
    _retire(commit, op.worker, op.incarnation)
    return OpResult("done", detail={"worker": op.worker, "incarnation": op.incarnation, "attested": attested})


def _refusal(commit: Commit, op: AttestIncarnationOp) -> OpResult | None:
    """Return why nothing of a statement about an incarnation is recorded, or None."""
    if _is_too_long(op):
        return OpResult("refused", "attestation_too_long")
    if not all(text.strip() for text in (op.attester, op.statement, op.evidence)):
        return OpResult("refused", words.Reason.INCOMPLETE.value)
    if len(op.attempts) > MAX_ATTESTED:
        return OpResult("refused", "too_many_attempts")
    awaited = uncertain.awaited(commit.db, op.worker, op.incarnation)
    return OpResult("refused", "still_open", detail={"open": awaited}) if awaited else _other_rows(commit, op)


def _other_rows(commit: Commit, op: AttestIncarnationOp) -> OpResult | None:
    """Return how the rows that the attester read differ from those that there are, or None."""
    actual = uncertain.attestable(commit.db, op.worker, op.incarnation, MAX_ATTESTED + 1)
    if not op.incarnation or not actual:
        return OpResult("refused", "nothing_to_attest")
    read = {(row.run_id, row.attempt): row.row_revision for row in op.attempts}
    if len(read) != len(op.attempts) or read.keys() != {(each.run_id, each.n) for each in actual}:
        return OpResult("refused", "list_changed", detail={"attempts": _listed(actual[:MAX_ATTESTED])})
    changed = [each for each in actual if read[each.run_id, each.n] != each.revision]
    if changed:
        return OpResult("refused", words.Reason.ROW_CHANGED.value, detail={"attempts": _listed(changed)})
    return None


def _settled(
    commit: Commit, run: Run, case: runs_of.Case, op: _Op, row_revision: int, attempt: Attempt
) -> RunState | Denied:
    """Write one attested attempt and what follows for its run."""
    command = words.Attest(op.attester, op.statement, op.evidence, row_revision)
    attested, decision = attempts_of.step(attempt, command, words.NOTHING_BESIDE, now_ms=commit.now_ms)
    if isinstance(decision, Denied):
        return decision
    assert attested is not None
    after, standing = runs_of.step(case, runs_of.Settle(attested), now_ms=commit.now_ms)
    assert standing is not None, "a run follows its attempts"
    whole = "" if isinstance(op, AttestOp) else f", with all of incarnation {op.incarnation}"
    said = f"{op.statement} ({op.evidence})"
    carry(commit, run, case, after, Cause(op.operation.principal, "attest", f"attested by {op.attester}{whole}", said))
    return standing.state


def _is_too_long(op: _Op) -> bool:
    return len(op.attester) + len(op.statement) + len(op.evidence) > MAX_ATTESTATION_CHARS


def _listed(attempts: Sequence[Attempt]) -> list[dict[str, object]]:
    return [{"run_id": each.run_id, "attempt": each.n, "row_revision": each.revision} for each in attempts]


def _retire(commit: Commit, worker: str, incarnation: str) -> None:
    if not incarnation:
        return  # made by a restore: there never was a claim
    row = (worker, incarnation, commit.now_ms, commit.revision)
    commit.db.execute("INSERT OR IGNORE INTO retired VALUES (?, ?, ?, ?)", row)
    commit.note(f"incarnation:{worker}/{incarnation}")
