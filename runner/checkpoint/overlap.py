"""Overlap: where an occurrence stands that meets other runs of its schedule, and what becomes of earlier ones."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from runner.checkpoint import queries
from runner.checkpoint import run as runs_of
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Overlap
from runner.checkpoint.records import RunState, Schedule

OVERLAP: Final = "overlap"
QUEUE_FULL: Final = "queue_full"
CANCEL_PREVIOUS: Final = "cancel_previous"
ALLOW: Final = "allow"
DEFAULT_CONCURRENT: Final = 10
"""Overlap `allow`: how many runs may be open at once where the schedule does not say."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one occurrence stands: it has the slot, waits in line for it, runs beside it, or is skipped for a reason."""

    holds_slot: bool = False
    beside: bool = False
    skipped: Literal["overlap", "queue_full"] | None = None


@dataclass(slots=True)
class Turn:
    """How the occurrences of one batch find their schedule's slot; moves with each that is given its place.

    Attributes:
        policy: what becomes of one that meets a run of an earlier batch.
        taken: a run has the slot, of this batch or an earlier one.
        held: a run of an earlier batch has it, or runs beside it although the policy does not allow that any more.
        waiting: runs in line behind it.
        beside: open runs beside it.
    """

    policy: Overlap
    queue_limit: int
    most: int
    taken: bool
    held: bool
    waiting: int
    beside: int

    @property
    def stops_others(self) -> bool:
        """Whether earlier runs have to make way."""
        return self.held and self.policy == CANCEL_PREVIOUS

    def cleared(self, way: "Way") -> "Turn":
        """Return the same once way was made."""
        return replace(self, taken=way.slot_run_id is not None, held=False, waiting=0)

    def place(self, *, caught_up: bool) -> Place:
        """Give the next occurrence its place.

        Args:
            caught_up: it is catch-up; such runs wait for each other whatever the policy.
        """
        if self.policy == ALLOW and not caught_up:
            if self.beside + self.taken >= self.most:
                return Place(skipped="overlap")
            self.beside += 1
            return Place(beside=True)
        if self.held and self.policy != ALLOW:
            full = {"queue_one": 1, "queue_all": self.queue_limit}.get(self.policy, 0)
            if self.waiting >= full:
                return Place(skipped="queue_full" if self.policy == "queue_all" else "overlap")
        if self.taken:
            self.waiting += 1
            return Place()
        self.taken = True
        return Place(holds_slot=True)


def turn_of(commit: Commit, schedule: Schedule) -> Turn:
    """Return how a batch that falls due now finds its schedule's slot."""
    spec, slot = schedule.spec, schedule.slot_run_id
    line = queries.line(commit.db, schedule.schedule_id)
    beside = queries.open_beside(commit.db, schedule.schedule_id)
    planned_beside = queries.open_beside(commit.db, schedule.schedule_id, planned=True)
    return Turn(
        policy=spec.overlap,
        queue_limit=spec.queue_limit,
        most=spec.max_concurrent or DEFAULT_CONCURRENT,
        taken=slot is not None,
        held=slot is not None or (spec.overlap != ALLOW and bool(planned_beside)),
        waiting=sum(run_id != slot for run_id in line),
        beside=len(beside),
    )


@dataclass(frozen=True, slots=True)
class Way:
    """What was done to earlier runs.

    Attributes:
        slot_run_id: who holds the schedule's slot afterwards: a run whose stop is not confirmed yet, or nobody.
        cancelled: the run that held the slot, unless it was being stopped already.
        displaced: runs that waited and will not run.
    """

    slot_run_id: str | None
    cancelled: tuple[str, ...] = ()
    displaced: tuple[str, ...] = ()

    @property
    def detail(self) -> dict[str, list[str]]:
        """Return what a caller is told beside the rest; nothing where nothing was done."""
        told = {"cancelled": list(self.cancelled), "displaced": list(self.displaced)}
        return {key: run_ids for key, run_ids in told.items() if run_ids}


def make_way(commit: Commit, schedule: Schedule, actor: str, why: str) -> Way:
    """Stop the run that holds the slot and displace those that wait in line behind it, in the caller's commit.

    What an earlier policy let run beside the slot is stopped too.

    What runs keeps the slot until its stop is confirmed, or attested: a later run never starts beside it. What only
    waits gives its place up at once.

    Args:
        actor: who is named in the trail.
        why: what fell due or was triggered, in words.
    """
    cause = f"{CANCEL_PREVIOUS}: {why}"
    holder = schedule.slot_run_id
    # The line first: else the holder's end would pass the slot to one that is displaced a moment later.
    line = [run_id for run_id in queries.line(commit.db, schedule.schedule_id) if run_id != holder]
    displaced = [run_id for run_id in line if _displace(commit, run_id, Cause(actor, "displace", cause))]
    cancelled: list[str] = []
    beside = queries.open_beside(commit.db, schedule.schedule_id, planned=True)
    for open_run in (*beside, *(() if holder is None else (holder,))):
        if _displace(commit, open_run, Cause(actor, "displace", cause)):
            displaced.append(open_run)
        elif _cancel(commit, open_run, Cause(actor, "cancel", cause)):
            cancelled.append(open_run)
    slot_run_id = queries.slot_of(commit.db, schedule.schedule_id)
    return Way(slot_run_id, tuple(cancelled), tuple(displaced))


def _displace(commit: Commit, run_id: str, cause: Cause) -> bool:
    """Give a waiting run up for good; False for what is not waiting, or has work of which nobody knows the end."""
    found = run_with_case(commit, run_id)
    assert found is not None, "who holds the slot or waits for it has a row"
    run, case = found
    after, standing = runs_of.step(case, runs_of.Displace(), now_ms=commit.now_ms)
    if run.state is not RunState.PENDING or standing is None or standing.state not in runs_of.TERMINAL:
        return False
    carry(commit, run, case, after, cause)
    return True


def _cancel(commit: Commit, run_id: str, cause: Cause) -> bool:
    """Cancel a run; False if that was done before."""
    found = run_with_case(commit, run_id)
    assert found is not None, "who holds the slot has a row"
    run, case = found
    after, standing = runs_of.step(case, runs_of.Cancel(), now_ms=commit.now_ms)
    if standing is None:
        return False
    carry(commit, run, case, after, cause)
    return True
