"""What is known of an uncertain run and what is not, in words that recovery staff can act on."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from runner.checkpoint.freezing import Freeze
from runner.checkpoint.records import Attempt, AttemptState, Pool, Run, RunState
from runner.checkpoint.said import RESTORED
from runner.ids import instant_text

FIRST_ELECTION: Final = "the first election of a new cluster needs all its voters, later ones a majority"
WHY: Final = MappingProxyType(
    {
        "worker_out_of_contact": "its worker has been out of contact",
        "cannot_tell": "its worker cannot tell what became of it",
        "not_held": "its worker does not hold it (any more)",
        "incarnation_replaced": "its worker was started again and cannot observe it any more",
        "stop_deadline": "its worker did not confirm the stop in time",
        "restored": "the checkpoint was restored from an image, and what happened since then is not known",
    }
)


def unknown_because(run: Run, attempts: Sequence[Attempt]) -> str | None:
    """Return what is known and what is not of the attempts that cannot be confirmed; None if there is none.

    What a human attested stays not known: only that nothing of it is alive is on record.
    """
    uncertain = [attempt for attempt in attempts if _is_uncertain(attempt)]
    if not uncertain:
        return " ".join(_quiesced(attempt) for attempt in attempts if attempt.state is AttemptState.QUIESCED) or None
    told = [_attempt(attempt) for attempt in uncertain]
    if any(not attempt.superseded for attempt in uncertain):
        slot = " and the schedule's overlap slot" if run.holds_slot else ""
        kept = f"its places in pool {run.pool}{slot}"
        told.append(f"Until this is resolved, {kept} stay reserved, and nothing of this run is launched again.")
        told.append(f"{_hope(uncertain)} make sure")
    else:
        told.append(
            "A later delivery of the same occurrence took its place, so it holds none, and no report changes it."
        )
        told.append("To have it resolved, make sure")
    commands = " and ".join(_attest(attempt) for attempt in uncertain)
    return f"{' '.join(told)} on the worker's host that nothing of the work is alive, then say so: {commands}"


def why_uncertain(attempt: Attempt) -> str:
    """Return why the outcome of an attempt cannot be confirmed, as a part of a sentence."""
    reason = attempt.reason or "no report came"
    return WHY.get(reason, reason.replace("_", " "))


def waits_for(
    run: Run,
    *,
    slot_run_id: str | None,
    first_in_line: str | None,
    pool: Pool | None,
    now_ms: int,
) -> str | None:
    """Return what a Pending run waits for; None for any other run.

    Args:
        slot_run_id: the run that owns the schedule's overlap slot.
        first_in_line: the schedule's oldest Pending run.
        pool: the run's pool.
        now_ms: the checkpoint's instant.
    """
    if run.state is not RunState.PENDING:
        return None
    if slot_run_id not in {None, run.run_id}:
        return f"its turn: run {slot_run_id} of the same schedule is not finished"
    if slot_run_id is None and first_in_line not in {None, run.run_id}:
        return f"its turn: run {first_in_line} of the same schedule comes first"
    if run.not_before_ms > now_ms:
        return f"the instant {instant_text(run.not_before_ms)}, before which it is not claimed"
    if pool is not None and pool.held >= pool.limit:
        return f"a place in pool {pool.name}: {pool.held} of {pool.limit} are taken"
    return f"a worker of pool {run.pool} that has room; `fencepost status` lists the workers"


def waits_for_unfreeze(freeze: Freeze) -> str:
    """Return what every Pending run waits for while the checkpoint is frozen."""
    since = f"frozen since {instant_text(freeze.since_ms)} by {freeze.by}"
    return f"`fencepost unfreeze`: {since}, and nothing is claimed meanwhile"


def _quiesced(attempt: Attempt) -> str:
    attested = f"Of attempt {attempt.n} a human attested that nothing is alive. {_permit(attempt)}"
    return f"{attested} Not known, and not to become so: how it ended, and what it did."


def _hope(uncertain: Sequence[Attempt]) -> str:
    if all(attempt.superseded or attempt.reason == RESTORED for attempt in uncertain):
        return "What its worker reports of it is kept as evidence and resolves nothing:"
    return "A report of its worker would still resolve it. If none can come,"


def _is_uncertain(attempt: Attempt) -> bool:
    lost_stop = attempt.state is AttemptState.CANCELLING and attempt.unresolved
    return attempt.state is AttemptState.UNKNOWN or lost_stop


def _attempt(attempt: Attempt) -> str:
    wanted = (
        "was cancelled, and its stop is not confirmed" if attempt.state is AttemptState.CANCELLING else "is unknown"
    )
    where = f" on worker {attempt.worker} (incarnation {attempt.incarnation})" if attempt.incarnation else ""
    return " ".join(
        [
            f"Attempt {attempt.n}{where} {wanted}: {_sentence(why_uncertain(attempt))}",
            _launch(attempt),
            *(["Evidence: " + _sentence("; ".join(attempt.evidence.splitlines()))] if attempt.evidence else []),
        ]
    )


def _attest(attempt: Attempt) -> str:
    words = "--attester NAME --statement TEXT --evidence TEXT"
    return f"fencepost attest {attempt.run_id} {attempt.n} --config DIR/recovery.toml {words}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _permit(attempt: Attempt) -> str:
    if attempt.token is None or attempt.admitted_ms is None:
        return "Known: no permit is on record."
    return f"Known: its permit was committed at {instant_text(attempt.admitted_ms)} (token {attempt.token})."


def _launch(attempt: Attempt) -> str:
    permit = _permit(attempt)
    if attempt.execution_id is None:
        return f"{permit} Not known: whether it was launched, whether it is alive, and how it ended."
    since = f", started at {instant_text(attempt.started_ms)}" if attempt.started_ms is not None else ""
    return (
        f"{permit} The engine accepted it as {attempt.execution_id}{since}. "
        "Not known: whether it is alive, and how it ended."
    )
