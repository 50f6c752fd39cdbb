"""What a command leaves on an attempt's row, and how its repetition is recognised."""

from dataclasses import replace
from typing import Final

from runner.checkpoint import attempt_words as words
from runner.checkpoint.attempt_words import NOT_CONSUMED, Command
from runner.checkpoint.records import Attempt, AttemptState
from runner.ids import instant_text
from worker.protocol import MAX_TAIL_BYTES

CANCELLED_BEFORE_LAUNCH: Final = "cancelled"
RESTORED: Final = "restored"
MAX_EVIDENCE_CHARS: Final = 8192
EXIT: Final = "exit"
_FAILURES: Final = frozenset({EXIT, "timeout", "refused"})


def newborn(claim: words.Claim, now_ms: int) -> Attempt:
    """Return a Claimed attempt."""
    return replace(
        _blank(claim.run_id, claim.n, pool=claim.pool, digest=claim.digest, now_ms=now_ms),
        worker=claim.worker,
        incarnation=claim.incarnation,
        ledger=claim.ledger,
        owner=claim.owner,
        epoch=claim.epoch,
        generation=claim.generation,
    )


def restored_newborn(restore: words.Restore, now_ms: int) -> Attempt:
    """Return an Unknown attempt without a claim: a place for what may have been launched since the image."""
    blank = _blank(restore.run_id, restore.n, pool=restore.pool, digest=restore.digest, now_ms=now_ms)
    return replace(blank, state=AttemptState.UNKNOWN, reason=RESTORED, generation=restore.generation)


def was_given_back(attempt: Attempt) -> bool:
    """Return whether its own incarnation fenced it before it consumed the permit: it never reached an engine."""
    return attempt.state in {AttemptState.FAILED, AttemptState.CANCELLED} and attempt.reason == NOT_CONSUMED


def already_said(attempt: Attempt, command: Command) -> bool:
    """Return whether this very command was recorded before, so that its repeat gets the same answer.

    The table itself has a row for a repeated Admit; an attestation names the revision it is about, so it never repeats.
    """
    state = attempt.state
    match command:
        case words.Claim():
            return state is AttemptState.CLAIMED and _life(attempt) == _life(command)
        case words.Fence():
            return state is AttemptState.NOT_LAUNCHED and command.worker in {None, attempt.worker}
        case words.Lose():
            lost = (state is AttemptState.UNKNOWN or attempt.unresolved) and attempt.reason == command.why
            return lost and command.worker in {None, attempt.worker}
        case words.Accept() | words.Finish() | words.ConfirmStopped() | words.Forfeit():
            return _spoken_for(attempt, command) and _reports_the_same(attempt, command)
        case _:
            return (
                (isinstance(command, words.Cancel) and state is AttemptState.CANCELLING)
                or (isinstance(command, words.Supersede) and attempt.superseded)
                or (isinstance(command, words.Restore) and state is AttemptState.UNKNOWN and attempt.reason == RESTORED)
            )


def as_moved(attempt: Attempt, command: Command, now_ms: int) -> Attempt:
    """Return the row with what the command says written on it; the table sets the state where it is one."""
    match command:
        case words.Accept() | words.Finish() | words.ConfirmStopped() | words.Forfeit() | words.Lose():
            moved = _reported(attempt, command, now_ms)
            return keep_words(moved, command, now_ms) if command.words else moved
        case words.Admit():
            return replace(attempt, reservation=command.reservation, token=command.token, admitted_ms=now_ms)
        case words.Fence():
            return replace(attempt, fenced=True, reason=command.why, ended_ms=now_ms)
        case words.Cancel():
            return _asked_to_stop(attempt, now_ms)
        case words.Attest():
            text = f"attested by {command.attester}: {command.statement} ({command.evidence})"
            return _with_words(replace(attempt, unresolved=False, ended_ms=now_ms), text, now_ms)
        case words.Supersede() | words.Restore():
            superseded = attempt.superseded or isinstance(command, words.Supersede)
            reason = RESTORED if isinstance(command, words.Restore) else attempt.reason
            return replace(attempt, superseded=superseded, reason=reason, unresolved=False)
        case words.Claim():
            raise AssertionError("a claim makes an attempt; it never moves one")


def keep_words(attempt: Attempt, command: Command, now_ms: int) -> Attempt:
    """Return the row with a report's words added to its evidence; the same words are kept once."""
    match command:
        case words.Accept():
            fact = f"accept execution_id={command.execution_id}"
        case words.Finish():
            fact = f"finish {_reported_result(command)[0].value} exit_code={command.exit_code}"
        case words.ConfirmStopped():
            fact = f"confirm_stopped consumed={command.consumed} exit_code={command.exit_code}"
        case words.Forfeit():
            fact = "forfeit"
        case words.Lose():
            elsewhere = command.ledger is not None and command.ledger != attempt.ledger
            fact = f"lose {command.why}{f' from ledger {command.ledger}' if elsewhere else ''}"
        case _:
            return attempt
    if isinstance(command, words.Report) and _life(attempt) != _life(command):
        fact += f" by {command.worker}/{command.incarnation} from ledger {command.ledger}"
    return _with_words(attempt, f"{fact}: {command.words}" if command.words else fact, now_ms)


def _with_words(attempt: Attempt, text: str, now_ms: int) -> Attempt:
    line = " ".join(text.split())
    if any(kept.partition(" ")[2] == line for kept in attempt.evidence.split("\n")):
        return attempt
    added = f"{instant_text(now_ms)} {line}"
    evidence = f"{attempt.evidence}\n{added}" if attempt.evidence else added
    # Bounded: the oldest words go first, and whole lines of them.
    while len(evidence) > MAX_EVIDENCE_CHARS and "\n" in evidence:
        evidence = evidence.split("\n", 1)[1]
    return replace(attempt, evidence=evidence[:MAX_EVIDENCE_CHARS])


def _asked_to_stop(attempt: Attempt, now_ms: int) -> Attempt:
    if attempt.state is AttemptState.CLAIMED:
        return replace(attempt, fenced=True, reason=CANCELLED_BEFORE_LAUNCH, ended_ms=now_ms)
    return replace(attempt, cancelling_ms=now_ms, unresolved=attempt.state is AttemptState.UNKNOWN)


def _reported(
    attempt: Attempt,
    report: words.Accept | words.Finish | words.ConfirmStopped | words.Forfeit | words.Lose,
    now_ms: int,
) -> Attempt:
    match report:
        case words.Accept():
            return replace(attempt, execution_id=report.execution_id, started_ms=report.started_ms)
        case words.Lose():
            return replace(attempt, reason=report.why, unresolved=attempt.state is AttemptState.CANCELLING)
        case words.Finish():
            state, reason, exit_code, ended_ms = _reported_result(report)
            won = attempt.state is AttemptState.CANCELLING
            tail = "" if report.succeeded else _tail(report.tail)
            settled = replace(attempt, state=state, reason=reason, exit_code=exit_code, ended_ms=ended_ms)
            return replace(settled, won=won, unresolved=False, tail=tail)
        case words.ConfirmStopped():
            reason = None if report.consumed else NOT_CONSUMED
            ended = replace(attempt, reason=reason, exit_code=report.exit_code, ended_ms=report.ended_ms)
            return replace(ended, unresolved=False)
        case words.Forfeit():
            return replace(attempt, reason=NOT_CONSUMED, ended_ms=now_ms, unresolved=False)


def _reports_the_same(
    attempt: Attempt, report: words.Accept | words.Finish | words.ConfirmStopped | words.Forfeit
) -> bool:
    match report:
        case words.Accept():
            return attempt.execution_id == report.execution_id
        case words.Finish():
            return (attempt.state, attempt.reason, attempt.exit_code, attempt.ended_ms) == _reported_result(report)
        case words.ConfirmStopped():
            said = (AttemptState.CANCELLED, report.exit_code, report.ended_ms)
            return (attempt.state, attempt.exit_code, attempt.ended_ms) == said
        case words.Forfeit():
            return was_given_back(attempt)


def _life(who: Attempt | words.Claim | words.Report) -> tuple[str, str, str]:
    return who.worker, who.incarnation, who.ledger


def _spoken_for(attempt: Attempt, report: words.Report) -> bool:
    """Return whether the report comes from the ledger it must come from: its words outlive the process life."""
    if isinstance(report, words.Forfeit):
        return _life(attempt) == _life(report)
    return (attempt.worker, attempt.ledger) == (report.worker, report.ledger)


def _reported_result(finish: words.Finish) -> tuple[AttemptState, str | None, int | None, int]:
    if finish.succeeded:
        return AttemptState.SUCCEEDED, None, finish.exit_code, finish.ended_ms
    # A reason outside the protocol's must not pass for one that the table treats otherwise (not_consumed).
    reason = finish.reason if finish.reason in _FAILURES else EXIT
    return AttemptState.FAILED, reason, finish.exit_code, finish.ended_ms


def _tail(text: str) -> str:
    return text.encode()[-MAX_TAIL_BYTES:].decode(errors="ignore")


def _blank(run_id: str, n: int, *, pool: str, digest: str, now_ms: int) -> Attempt:
    return Attempt(
        run_id=run_id,
        n=n,
        state=AttemptState.CLAIMED,
        reason=None,
        unresolved=False,
        superseded=False,
        won=False,
        worker="",
        incarnation="",
        ledger="",
        owner="",
        epoch=0,
        generation=0,
        authority=pool,
        digest=digest,
        reservation=None,
        token=None,
        fenced=False,
        execution_id=None,
        exit_code=None,
        claimed_ms=now_ms,
        admitted_ms=None,
        started_ms=None,
        ended_ms=None,
        cancelling_ms=None,
        tail="",
        evidence="",
        revision=0,
    )
