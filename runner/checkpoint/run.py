"""The state machine of a run: its state is one function of its attempts and of its own decisions (DESIGN section 4).

`conclude` is that function. `MOVES` says which reasons may move a run out of which state, and to where; `step` applies
one, its consequences for the attempts included.
"""

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from runner.checkpoint import attempt as attempts_of
from runner.checkpoint import attempt_words as words
from runner.checkpoint.attempt import UNCERTAIN, was_launched
from runner.checkpoint.attempt_words import NOTHING_BESIDE
from runner.checkpoint.records import Attempt, AttemptState, RunState
from runner.checkpoint.run_words import (
    COMMANDS,
    Cancel,
    Case,
    Close,
    Command,
    Displace,
    Reopen,
    Restore,
    Settle,
    Standing,
    Start,
)
from runner.checkpoint.said import EXIT, was_given_back

__all__ = [
    "COMMANDS",
    "MISSED_WINDOW",
    "MOVES",
    "SUPERSEDED",
    "TERMINAL",
    "UNRESOLVED",
    "Cancel",
    "Case",
    "Close",
    "Command",
    "Displace",
    "Reopen",
    "Restore",
    "Settle",
    "Standing",
    "Start",
    "closing_ms",
    "conclude",
    "step",
]

MISSED_WINDOW: Final = "missed_window"
SUPERSEDED: Final = "superseded"
UNRESOLVED: Final = "unresolved"


_PENDING = RunState.PENDING
_ACTIVE = RunState.ACTIVE
_CANCELLING = RunState.CANCELLING
_UNKNOWN = RunState.UNKNOWN
_SUCCEEDED = RunState.SUCCEEDED
_FAILED = RunState.FAILED
_CANCELLED = RunState.CANCELLED
_QUIESCED = RunState.QUIESCED
_SKIPPED = RunState.SKIPPED

TERMINAL: Final = (_SUCCEEDED, _FAILED, _CANCELLED, _QUIESCED, _SKIPPED)
# Succeeded and Failed only where a completion won before a restore took the cancel back.
_STOPPED: Final = (_CANCELLING, _CANCELLED, _QUIESCED, _SUCCEEDED, _FAILED)
_GIVEN_UP: Final = (_UNKNOWN, _QUIESCED, _FAILED, _SKIPPED)

MOVES: Final = MappingProxyType[tuple[RunState, type[Command]], tuple[RunState, ...]](
    {
        (_PENDING, Start): (_ACTIVE,),
        (_PENDING, Cancel): _STOPPED,
        (_PENDING, Close): _GIVEN_UP,
        (_PENDING, Displace): _GIVEN_UP,
        (_PENDING, Restore): (_UNKNOWN, _PENDING),
        (_PENDING, Settle): (_PENDING,),  # a superseded attempt was attested
        (_ACTIVE, Settle): (_ACTIVE, _PENDING, _SUCCEEDED, _FAILED, _UNKNOWN, _QUIESCED, _SKIPPED),
        (_ACTIVE, Cancel): _STOPPED,
        (_ACTIVE, Displace): _GIVEN_UP,  # claimed before it was due: the claim is fenced
        (_ACTIVE, Restore): (_UNKNOWN, _PENDING),
        (_UNKNOWN, Settle): (_UNKNOWN, _PENDING, _SUCCEEDED, _FAILED, _QUIESCED, _SKIPPED),
        (_UNKNOWN, Cancel): (_CANCELLING,),
        (_UNKNOWN, Restore): (_UNKNOWN, _PENDING),
        (_CANCELLING, Settle): (_CANCELLING, _SUCCEEDED, _FAILED, _QUIESCED, _CANCELLED),
        (_CANCELLING, Restore): (_UNKNOWN, _PENDING),
        (_FAILED, Reopen): (_PENDING,),
        # A terminal run stays what it is; a superseded attempt of it may still be attested.
        **{(state, Settle): (state,) for state in TERMINAL},
    }
)


def conclude(case: Case) -> Standing:
    """Return the run's state: the one function of its attempts and its own decisions."""
    if case.cancelled:
        return _stopped(case)
    if case.given_up is not None:
        return _abandoned(case, case.given_up)
    last = case.attempts[-1] if case.attempts else None
    if last is None or last.n <= case.reopened_after or last.superseded:
        return Standing(_PENDING)
    return _as_last(case, last)


def step(case: Case, command: Command, *, now_ms: int) -> tuple[Case, Standing | None]:
    """Decide one command against one run. Same inputs, same answer, on every machine.

    Args:
        case: the run.
        command: why it may move.
        now_ms: the command's clamped now, milliseconds since the epoch, UTC.

    Returns:
        The run as it is afterwards, its attempts included, and where it stands; None if the command is refused.
    """
    before = conclude(case)
    targets = MOVES.get((before.state, type(command)))
    if targets is None or _excepted(case, command):
        return case, None
    after = _decided(case, command, now_ms)
    standing = conclude(after)
    assert standing.state in targets, (before.state, type(command), standing.state)
    return after, standing


def closing_ms(case: Case) -> int | None:
    """Return the instant from which a Pending run is given up, or None for never."""
    return case.deadline_ms if any(was_launched(attempt) for attempt in case.attempts) else case.closes_ms


def _excepted(case: Case, command: Command) -> bool:
    match command:
        case Reopen():
            return case.deadline_ms is None  # only webhooks are delivered again
        case Displace():
            # A permit is out: this run is stopped by a cancel, not by taking its place.
            return any(last.state in {AttemptState.ADMITTED, AttemptState.ACCEPTED} for last in case.attempts[-1:])
        case _:
            return False


def _as_last(case: Case, last: Attempt) -> Standing:
    match last.state:
        case AttemptState.CLAIMED | AttemptState.ADMITTED | AttemptState.ACCEPTED:
            return Standing(_ACTIVE)
        case AttemptState.NOT_LAUNCHED:
            return Standing(_PENDING)
        case AttemptState.FAILED:
            retried = was_given_back(last) or (_invites(case, last) and _failures(case) < case.attempts_allowed)
            return Standing(_PENDING) if retried else _settled_without_success(case, Standing(_FAILED, last.reason))
        case AttemptState.SUCCEEDED:
            return Standing(_SUCCEEDED)
        case AttemptState.UNKNOWN | AttemptState.QUIESCED:
            return _settled_without_success(case, Standing(_QUIESCED))
        case AttemptState.CANCELLING | AttemptState.CANCELLED:
            raise AssertionError("an attempt was cancelled without its run")


def _decided(case: Case, command: Command, now_ms: int) -> Case:
    match command:
        case Start(attempt):
            assert attempt.n == len(case.attempts) + 1, "attempts are numbered without a gap"
            return replace(case, attempts=(*case.attempts, attempt))
        case Settle(attempt):
            return _settle(_with(case, attempt), conclude(case).state, now_ms)
        case Cancel():
            return _all_of(replace(case, cancelled=True), words.Cancel(), now_ms)
        case Close():
            return replace(case, given_up=MISSED_WINDOW)
        case Displace():
            fence = words.Fence(why=SUPERSEDED, worker=None)
            return _all_of(replace(case, given_up=SUPERSEDED), fence, now_ms)
        case Restore() | Reopen():
            fresh = replace(case, cancelled=False, given_up=None)
            return _restore(fresh, command, now_ms) if isinstance(command, Restore) else _reopen(fresh, command)


def _settle(case: Case, was: RunState, now_ms: int) -> Case:
    closing = closing_ms(case)
    closed = closing is not None and now_ms >= closing
    last = case.attempts[-1]
    retries = case.on_unknown == "retry" and not closed and not case.cancelled and case.given_up is None
    if retries and last.state is AttemptState.UNKNOWN:
        case = _with(case, _stepped(last, words.Supersede(), now_ms))
    # What becomes Pending after its closing instant is closed at once: no pause, no further claim.
    if closed and was is not _PENDING and conclude(case).state is _PENDING:
        return replace(case, given_up=MISSED_WINDOW)
    return case


def _reopen(case: Case, command: Reopen) -> Case:
    until_ms = command.deadline_ms
    return replace(case, closes_ms=until_ms, deadline_ms=until_ms, reopened_after=len(case.attempts))


def _restore(case: Case, command: Restore, now_ms: int) -> Case:
    last = case.attempts[-1] if case.attempts else None
    is_open = last is not None and last.state not in attempts_of.TERMINAL and not last.superseded
    n = len(case.attempts) + 1
    restore = words.Restore(
        run_id=command.run_id, n=n, pool=command.pool, digest=command.digest, generation=command.generation
    )
    lost = _stepped(last if is_open else None, restore, now_ms)
    if case.on_unknown == "retry":
        lost = _stepped(lost, words.Supersede(), now_ms)
    return _with(case, lost)


def _all_of(case: Case, command: words.Cancel | words.Fence, now_ms: int) -> Case:
    return replace(case, attempts=tuple(_stepped(attempt, command, now_ms) for attempt in case.attempts))


def _stepped(attempt: Attempt | None, command: words.Command, now_ms: int) -> Attempt:
    moved, _ = attempts_of.step(attempt, command, NOTHING_BESIDE, now_ms=now_ms)
    assert moved is not None
    return moved


def _with(case: Case, attempt: Attempt) -> Case:
    earlier, later = case.attempts[: attempt.n - 1], case.attempts[attempt.n :]
    return replace(case, attempts=(*earlier, attempt, *later))


def _stopped(case: Case) -> Standing:
    stopping = [attempt for attempt in case.attempts if attempt.state not in attempts_of.TERMINAL]
    if stopping:
        return Standing(_CANCELLING, UNRESOLVED if any(attempt.unresolved for attempt in stopping) else None)
    won = [attempt for attempt in case.attempts if attempt.won and attempt.n > case.reopened_after]
    if any(attempt.state is AttemptState.SUCCEEDED for attempt in won):
        return Standing(_SUCCEEDED)
    if any(attempt.state is AttemptState.QUIESCED for attempt in case.attempts):
        return Standing(_QUIESCED)
    return Standing(_FAILED, won[-1].reason) if won else Standing(_CANCELLED)


def _abandoned(case: Case, why: str) -> Standing:
    failed = [a for a in case.attempts if a.state is AttemptState.FAILED and not was_given_back(a)]
    return _settled_without_success(case, Standing(_FAILED, failed[-1].reason) if failed else Standing(_SKIPPED, why))


def _settled_without_success(case: Case, otherwise: Standing) -> Standing:
    """A state is only as definite as its evidence: what an earlier attempt leaves open comes first."""
    uncertain = [attempt for attempt in case.attempts if attempt.state in UNCERTAIN]
    if uncertain:
        return Standing(_UNKNOWN, uncertain[-1].reason)
    if any(attempt.state is AttemptState.QUIESCED for attempt in case.attempts):
        return Standing(_QUIESCED)
    return otherwise


def _invites(case: Case, failed: Attempt) -> bool:
    """Return whether its policy tries again after such a failure: a timeout or a refusal has no exit code to be named."""
    return case.retried_codes is None or (failed.reason == EXIT and failed.exit_code in case.retried_codes)


def _failures(case: Case) -> int:
    return sum(
        attempt.state is AttemptState.FAILED and not was_given_back(attempt)
        for attempt in case.attempts
        if attempt.n > case.reopened_after
    )
