"""Own operations that cannot be applied: named once, and not proposed again for a while."""

from dataclasses import dataclass, field
from typing import Final

from runner.checkpoint.ops import ClaimOp, CloseOp, FenceOp, LoseOp, Materialise, Op, Prune
from runner.checkpoint.waiting import Claimable

ASIDE_S: Final = 60.0

Subject = tuple[str, ...]


def subject_of(op: Op) -> Subject:
    """Return what an operation is about, the same however often it is drafted anew: its kind and its row."""
    kind = type(op).__name__
    match op:
        case Materialise() | Prune():
            return (kind, op.schedule_id)
        case ClaimOp() | FenceOp() | LoseOp():
            return (kind, op.run_id, str(op.attempt))
        case CloseOp():
            return (kind, op.run_id)
        case _:
            return (kind,)


def plan_of(schedule_id: str) -> Subject:
    """Return the subject of a schedule's plan before it is drafted."""
    return (Materialise.__name__, schedule_id)


def claim_of(candidate: Claimable) -> Subject:
    """Return the subject of a claim before it is drafted: a run that cannot be claimed takes no worker's room."""
    return (ClaimOp.__name__, candidate.run_id, str(candidate.attempt))


@dataclass(slots=True, eq=False)
class Aside:
    """What one tenure has set aside, and until when in served time."""

    _until_s: dict[Subject, float] = field(default_factory=dict)

    def put(self, subject: Subject, served_s: float) -> bool:
        """Set aside for `ASIDE_S`; False if it was already."""
        if self.holds(subject, served_s):
            return False
        self._until_s = {one: until_s for one, until_s in self._until_s.items() if until_s > served_s}
        self._until_s[subject] = served_s + ASIDE_S
        return True

    def holds(self, subject: Subject, served_s: float) -> bool:
        """Return whether it is still set aside."""
        return self._until_s.get(subject, 0.0) > served_s
