"""The guards of the attempt table: each is named by the reason that is given when it does not hold."""

from typing import Final

from runner.checkpoint import attempt_words as words
from runner.checkpoint.attempt_words import Command, Facts, Reason
from runner.checkpoint.records import Attempt, AttemptState, RunState

CLAIM_GUARDS: Final = (
    Reason.RUN_NOT_PENDING,
    Reason.ATTEMPT_OPEN,
    Reason.ATTEMPT_DIFFERS,
    Reason.NOT_DUE,
    Reason.WINDOW_PASSED,
    Reason.SLOT_HELD,
    Reason.POOL_FULL,
    Reason.AUTHORITY_DIFFERS,
    Reason.INCARNATION_RETIRED,
    Reason.FROZEN,
)
ADMIT_GUARDS: Final = (
    Reason.BINDING_DIFFERS,
    Reason.AUTHORITY_DIFFERS,
    Reason.FENCED,
    Reason.INCARNATION_RETIRED,
    Reason.FROZEN,
    Reason.NOT_DUE,
    Reason.RUN_CANCELLING,
)
REPEATED_ADMIT_GUARDS: Final = (Reason.ALREADY_PERMITTED, Reason.AUTHORITY_DIFFERS, Reason.INCARNATION_RETIRED)
ATTEST_GUARDS: Final = (Reason.STILL_STOPPING, Reason.INCOMPLETE, Reason.ROW_CHANGED)


def stands_against(guard: Reason, attempt: Attempt, command: Command, facts: Facts, now_ms: int) -> bool:
    """Return whether this reason to say no is true now."""
    if isinstance(command, words.Claim):
        return _against_claim(guard, command, facts, now_ms)
    if isinstance(command, words.Admit):
        return _against_admit(guard, attempt, command, facts, now_ms)
    if isinstance(command, words.Attest):
        return _against_attest(guard, attempt, command)
    if isinstance(command, words.Report):
        return _against_report(guard, attempt, command, facts)
    assert isinstance(command, words.Fence | words.Lose), command
    if guard is Reason.LEDGER_DIFFERS:
        assert isinstance(command, words.Lose), command
        return command.worker is not None and command.ledger != attempt.ledger
    assert guard is Reason.WORKER_DIFFERS, guard
    return command.worker not in {None, attempt.worker}


def _against_claim(guard: Reason, claim: words.Claim, facts: Facts, now_ms: int) -> bool:
    against = {
        Reason.RUN_NOT_PENDING: facts.run_state is not RunState.PENDING,
        Reason.ATTEMPT_OPEN: facts.attempt_open,
        Reason.ATTEMPT_DIFFERS: claim.n != facts.next_n,
        Reason.NOT_DUE: now_ms < facts.due_ms,
        Reason.WINDOW_PASSED: facts.closing_ms is not None and now_ms >= facts.closing_ms,
        Reason.SLOT_HELD: not facts.slot_free_or_own,
        Reason.POOL_FULL: not facts.capacity_free,
        Reason.AUTHORITY_DIFFERS: claim.pool not in claim.authorities or _outside(claim.namespace, claim.namespaces),
        Reason.INCARNATION_RETIRED: facts.retired,
        Reason.FROZEN: facts.frozen,
    }
    return against[guard]


def _against_admit(guard: Reason, attempt: Attempt, admit: words.Admit, facts: Facts, now_ms: int) -> bool:
    against = {
        Reason.BINDING_DIFFERS: admit.asked != admit.stored,
        Reason.AUTHORITY_DIFFERS: _outside(admit.stored.authority, admit.pools)
        or _outside(admit.stored.namespace, admit.namespaces),
        Reason.FENCED: attempt.fenced,
        Reason.INCARNATION_RETIRED: facts.retired,
        Reason.FROZEN: facts.frozen,
        Reason.NOT_DUE: now_ms < facts.due_ms,
        Reason.RUN_CANCELLING: facts.run_state is RunState.CANCELLING,
        Reason.ALREADY_PERMITTED: admit.asked != admit.stored or admit.reservation != attempt.reservation,
    }
    return against[guard]


def _outside(name: str, allowed: frozenset[str] | None) -> bool:
    return allowed is not None and name not in allowed


def _against_attest(guard: Reason, attempt: Attempt, attest: words.Attest) -> bool:
    against = {
        Reason.STILL_STOPPING: attempt.state is AttemptState.CANCELLING and not attempt.unresolved,
        Reason.INCOMPLETE: not all(text.strip() for text in (attest.attester, attest.statement, attest.evidence)),
        Reason.ROW_CHANGED: attest.row_revision != attempt.revision,
    }
    return against[guard]


def _against_report(guard: Reason, attempt: Attempt, report: words.Report, facts: Facts) -> bool:
    same_ledger = (report.worker, report.ledger) == (attempt.worker, attempt.ledger)
    same_life = same_ledger and report.incarnation == attempt.incarnation
    # What was never consumed proves nothing about another process life; what was consumed is told by the ledger.
    never_consumed = isinstance(report, words.Forfeit) or (
        isinstance(report, words.ConfirmStopped) and not report.consumed
    )
    other_execution = isinstance(report, words.Accept) and attempt.execution_id not in {None, report.execution_id}
    against = {
        Reason.LEDGER_DIFFERS: not same_ledger,
        Reason.INCARNATION_DIFFERS: never_consumed and not same_life,
        Reason.GENERATION_DIFFERS: attempt.generation < facts.generation,
        Reason.EXECUTION_DIFFERS: other_execution,
        Reason.SUPERSEDED: attempt.superseded,
    }
    return against[guard]
