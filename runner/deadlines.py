"""When the owner gives up waiting: which open attempts to fence and which to lose. Pure (DESIGN 4: Deadlines)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runner.checkpoint.ops import FenceOp, LoseOp
from runner.checkpoint.records import Attempt, AttemptState
from runner.contacts import Ask, AttemptKey, Contact
from runner.settings import Timing

ContactOf = Callable[[str], Contact | None]


@dataclass(frozen=True, slots=True)
class Watch:
    """Since when, in served time, this owner has seen an attempt in its present state; from 0 at the takeover."""

    state: AttemptState
    since_s: float


def watch(before: Mapping[AttemptKey, Watch], attempts: Sequence[Attempt], served_s: float) -> dict[AttemptKey, Watch]:
    """Return the watches of what is open now; a changed state is watched anew."""
    found: dict[AttemptKey, Watch] = {}
    for attempt in attempts:
        key = (attempt.run_id, attempt.n)
        known = before.get(key)
        found[key] = known if known and known.state is attempt.state else Watch(attempt.state, served_s)
    return found


def overdue(
    attempts: Sequence[Attempt],
    watches: Mapping[AttemptKey, Watch],
    asks: Mapping[AttemptKey, Ask],
    contact_of: ContactOf,
    *,
    epoch: int,
    served_s: float,
    timing: Timing,
    lose_silent: bool = True,
) -> list[FenceOp | LoseOp]:
    """Return what the owner must propose about open attempts, one operation at most for each.

    Args:
        watches: as `watch` returned them for these attempts.
        asks: last permit request of each attempt, as far as this owner saw one.
        contact_of: the newest poll of a worker, if it polled in this tenure.
        epoch: the owner's epoch.
        served_s: the owner's served time, seconds since the takeover.
        timing: the owner's deadlines.
        lose_silent: whether silence is held against a worker: not while words of workers wait unread, and not if
            leadership is to move instead.
    """
    found: list[FenceOp | LoseOp] = []
    silence_s = timing.contact_s if lose_silent else float("inf")
    for attempt in attempts:
        key = (attempt.run_id, attempt.n)
        contact = contact_of(attempt.worker)
        waited_s = served_s - watches[key].since_s
        match attempt.state:
            case AttemptState.CLAIMED:
                why = _fence_why(
                    attempt, contact, waited_s=min(waited_s, _since_ask(asks.get(key), served_s)), of=timing
                )
                if why is not None:
                    found.append(FenceOp(attempt.run_id, attempt.n, why))
            case AttemptState.ADMITTED | AttemptState.ACCEPTED:
                why = _silence(contact, served_s, silence_s) or _disowned(attempt, contact, asks.get(key), epoch)
                if why is not None:
                    found.append(_lose(attempt, why, contact))
            case AttemptState.CANCELLING if not attempt.unresolved:
                why = _silence(contact, served_s, silence_s) or _replaced(attempt, contact)
                if why is None and waited_s >= timing.stop_grace_s + timing.stop_deadline_s:
                    why = "stop_deadline"
                if why is not None:
                    found.append(_lose(attempt, why, contact))
            case _:
                pass
    return found


def _since_ask(ask: Ask | None, served_s: float) -> float:
    return float("inf") if ask is None else served_s - ask.served_s


def _fence_why(attempt: Attempt, contact: Contact | None, *, waited_s: float, of: Timing) -> str | None:
    """A claim may be fenced at any time: no permit exists, and then none ever will."""
    if contact is not None and contact.incarnation != attempt.incarnation:
        return "incarnation_replaced"
    return "claim_deadline" if waited_s >= of.claim_s else None


def _silence(contact: Contact | None, served_s: float, longest_s: float) -> str | None:
    heard_s = 0.0 if contact is None else contact.served_s
    return "worker_out_of_contact" if served_s - heard_s >= longest_s else None


def _replaced(attempt: Attempt, contact: Contact | None) -> str | None:
    """A newer incarnation polls and its ledger does not say that the work can still be observed."""
    if contact is None or contact.incarnation == attempt.incarnation:
        return None
    row = contact.held.get((attempt.run_id, attempt.n))
    observable = row is not None and row.observable and contact.ledger == attempt.ledger
    return None if observable or not contact.complete else "incarnation_replaced"


def _disowned(attempt: Attempt, contact: Contact | None, ask: Ask | None, epoch: int) -> str | None:
    """Its incarnation was replaced, or polls without listing it although it must know of its permit request.

    Absence counts only in a poll that was sent after this owner's first answer, hence after every request to an
    earlier owner, and after the last request to this one.
    """
    if contact is None or contact.incarnation != attempt.incarnation:
        return _replaced(attempt, contact)
    if (attempt.run_id, attempt.n) in contact.held or not contact.complete or contact.epoch != epoch:
        return None
    asked_later = ask is not None and ask.incarnation == contact.incarnation and ask.number >= contact.number
    return None if asked_later else "not_held"


def _lose(attempt: Attempt, why: str, contact: Contact | None) -> LoseOp:
    return LoseOp(attempt.run_id, attempt.n, why, evidence=_evidence(attempt, contact))


def _evidence(attempt: Attempt, contact: Contact | None) -> str:
    """Say what the owner knows, for whoever has to attest this attempt one day."""
    if contact is None:
        return f"worker {attempt.worker} has not polled since this owner took over"
    row = contact.held.get((attempt.run_id, attempt.n))
    says = "does not list it" if row is None else f"lists it as {row.phase}"
    return f"the last poll heard, number {contact.number} of incarnation {contact.incarnation}, {says}"
