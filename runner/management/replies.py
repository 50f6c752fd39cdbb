"""Answers: forms as JSON, refusals and faults as problems that say how certain they are."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cluster.listener import Reply
from cluster.outcome import NotApplied, Why
from cluster.problem import CONTENT_TYPE, Problem
from runner.checkpoint.limits import MAX_ATTESTED, MAX_POOLS, MAX_SCHEDULES, MAX_WAITING
from runner.checkpoint.results import OpResult

STALE: Final = "Fencepost-Stale"
NEXT: Final = "Fencepost-Next"
RETRY_S: Final = 1

CONFLICT: Final = 409
TITLES: Final = MappingProxyType({404: "Not Found", 409: "Conflict", 422: "Unprocessable Content"})
# What is wrong with the request itself, whatever the state of things.
UNPROCESSABLE: Final = frozenset(
    {
        "attestation_too_long",
        "at_has_passed",
        "bad_key",
        "bad_name",
        "incomplete",
        "key_reused",
        "key_too_old",
        "malformed_plan",
        "named_twice",
        "out_of_range",
        "retry_of_unknown",
        "target_too_large",
        "too_many",
        "too_many_attempts",
        "too_many_instants",
        "unknown_pool",
    }
)
WORDS: Final = MappingProxyType(
    {
        "at_has_passed": "every instant of its `at` is longer ago than its catch-up window (1 h unless it says otherwise), or not later than what the schedule has planned already; write a later one",
        "frozen": "the cluster is frozen: nothing is started until `fencepost unfreeze`; `fencepost status` says since when",
        "illegal_move": "that is not possible in the state it is in",
        "key_reused": "this Idempotency-Key was used for another request; use a fresh one",
        "key_too_old": "this Idempotency-Key is too old to tell a repeat by; use a fresh one",
        "list_changed": "what can be attested of this incarnation is not what was listed; read the list again before attesting",
        "malformed_plan": "its instants are to be given oldest first, each once",
        "no_such_attempt": "the run has no such attempt; `fencepost show` lists those it has",
        "no_such_run": "there is no such run; `fencepost runs` lists them",
        "no_such_schedule": "there is no such schedule; `fencepost schedules` lists them",
        "not_yet": "some of its instants are later than what the schedule has planned: those are planned when it is enabled, by its catch-up policy; name earlier ones",
        "nothing_to_attest": "nothing of this incarnation is Unknown or stays unresolved; `fencepost unknown` lists what is",
        "out_of_range": "a number or an instant in it is beyond what can be meant",
        "retry_of_unknown": "only a delivery is tried again while its outcome is not known; write on_unknown = hold",
        "row_changed": "the attempt has changed since it was read; read it again before attesting",
        "schedule_deleted": "the schedule was deleted; apply it again to bring it back",
        "stale_plan": "the schedule was changed since its instants were worked out; ask again",
        "still_open": "the end of some of its attempts is still awaited; attest an incarnation once all that it held is given up",
        "still_stopping": "its stop may still be confirmed; attest only what stays unresolved",
        "terminal": "the run has ended",
        "too_many": f"one apply takes at most {MAX_SCHEDULES} schedules and {MAX_POOLS} pools, one backfill {MAX_WAITING} instants; split it",
        "too_many_attempts": f"one statement takes at most {MAX_ATTESTED} attempts; attest some of them one by one first",
        "too_many_instants": f"one schedule names at most {MAX_WAITING} instants with `at`; write another schedule for the rest",
        "unknown_pool": "a schedule names a pool that neither the file nor the cluster has; add a [[pool]] or name one that exists",
    }
)


def answered(form: object, *, stale_index: int | None = None, next_page: str | None = None) -> Reply:
    """Return a form as JSON.

    Args:
        form: what to say.
        stale_index: the applied index of a voter that could not ask the owner.
        next_page: of a list that goes on: what to ask for next.
    """
    headers = {} if stale_index is None else {STALE: str(stale_index)}
    headers |= {} if next_page is None else {NEXT: next_page}
    return Reply(body=msgspec.json.encode(form), headers=headers)


def decided(result: OpResult, says: Mapping[str, object] = MappingProxyType({})) -> Reply:
    """Return what the checkpoint decided about a change; a refusal is final, and certainly not done.

    Args:
        says: what is said of every change of this kind that was done.
    """
    if result.kind == "done":
        return answered({**result.detail, **says, "again": result.again})
    reason = result.reason or result.kind
    status = 404 if reason.startswith("no_such_") else 422 if reason in UNPROCESSABLE else CONFLICT
    problem = {
        **result.detail,
        "type": "about:blank",
        "title": TITLES[status],
        "status": status,
        "detail": _sentence(reason, result.detail),
        "certainty": "not_done",
        "reason": reason,
        "again": result.again,
    }
    return Reply(status, msgspec.json.encode(problem), CONTENT_TYPE)


def not_applied(fault: NotApplied) -> Problem:
    """Return the answer to a change that was appended nowhere."""
    if fault.why is Why.TOO_LARGE:
        return Problem(413, "Content Too Large", "The change is too large for one command; split it.", "not_done")
    if fault.why is Why.FAILED_TRIAL:
        detail = f"The change was not done: it cannot be applied ({fault}); this is a fault of fencepost, report it."
        return Problem(500, "Internal Server Error", detail, "not_done")
    if fault.why is Why.QUEUE_FULL:
        detail = "The change was not done: the owner has too much waiting; send it again a little later."
        return Problem(429, "Too Many Requests", detail, "not_done", retry_after_s=RETRY_S)
    detail = f"The change was not done ({fault}); send it again, here or to another voter."
    return unavailable(detail)


def unavailable(detail: str) -> Problem:
    """Return the answer to a change that nobody can take now: certainly not done."""
    return Problem(503, "Service Unavailable", detail, "not_done", retry_after_s=RETRY_S)


def uncertain(detail: str) -> Problem:
    """Return the answer to a change of which nobody can tell whether it was done."""
    detail = f"{detail}; repeat it with the same Idempotency-Key."
    return Problem(503, "Outcome Unknown", detail, "unknown", retry_after_s=RETRY_S)


def _sentence(reason: str, detail: Mapping[str, object]) -> str:
    named = [f"{key} {detail[key]}" for key in ("schedule", "pool", "run_id", "state") if key in detail]
    about = f" ({', '.join(named)})" if named else ""
    return f"Refused: {WORDS.get(reason, reason.replace('_', ' '))}{about}."
