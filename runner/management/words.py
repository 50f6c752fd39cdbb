"""What is known of an uncertain run and what is not, in words that recovery staff can act on."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from runner.checkpoint.records import Attempt, AttemptState, Run
from runner.ids import instant_text

WHY: Final = MappingProxyType(
    {
        "worker_out_of_contact": "its worker has been out of contact",
        "cannot_tell": "its worker cannot tell what became of it",
        "not_held": "its worker does not hold it (any more)",
        "incarnation_replaced": "its worker was started again and cannot observe it any more",
        "stop_deadline": "its worker did not confirm the stop in time",
    }
)


def unknown_because(run: Run, attempts: Sequence[Attempt]) -> str | None:
    """Return what is known and what is not of the attempts that cannot be confirmed; None if there is none."""
    told = [_attempt(attempt) for attempt in attempts if _is_uncertain(attempt)]
    if not told:
        return None
    kept = (
        f"its places in pool {run.pool} and the schedule's overlap slot"
        if run.holds_slot
        else f"its places in pool {run.pool}"
    )
    told.append(f"Until this is resolved, {kept} stay reserved, and nothing of this run is launched again.")
    told.append(
        "A report of its worker would still resolve it. If none can come, make sure on the worker's host that nothing "
        f"of the work is alive, then say so: fencepost attest {run.run_id} N --attester … --statement … --evidence …"
    )
    return " ".join(told)


def _is_uncertain(attempt: Attempt) -> bool:
    lost_stop = attempt.state is AttemptState.CANCELLING and attempt.unresolved
    return attempt.state is AttemptState.UNKNOWN or lost_stop


def _attempt(attempt: Attempt) -> str:
    reason = attempt.reason or "no report came"
    why = WHY.get(reason, reason.replace("_", " "))
    wanted = (
        "was cancelled, and its stop is not confirmed" if attempt.state is AttemptState.CANCELLING else "is unknown"
    )
    return " ".join(
        [
            f"Attempt {attempt.n} on worker {attempt.worker} (incarnation {attempt.incarnation}) {wanted}: {why}.",
            _launch(attempt),
            *([f"Evidence: {attempt.evidence}"] if attempt.evidence else []),
        ]
    )


def _launch(attempt: Attempt) -> str:
    permit = "Known: no permit is on record."
    if attempt.token is not None and attempt.admitted_ms is not None:
        permit = f"Known: its permit was committed at {instant_text(attempt.admitted_ms)} (token {attempt.token})."
    if attempt.execution_id is None:
        return f"{permit} Not known: whether it was launched, whether it is alive, and how it ended."
    since = f", started at {instant_text(attempt.started_ms)}" if attempt.started_ms is not None else ""
    return (
        f"{permit} The engine accepted it as {attempt.execution_id}{since}. "
        "Not known: whether it is alive, and how it ended."
    )
