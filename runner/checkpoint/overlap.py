"""Overlap: where an occurrence stands that meets other runs of its schedule, and what becomes of earlier ones."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from runner.checkpoint import lines, queries
from runner.checkpoint import run as runs_of
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Overlap, ScheduleSpec
from runner.checkpoint.records import RunState, Schedule

QUEUE_ONE: Final = "queue_one"
QUEUE_ALL: Final = "queue_all"
CANCEL_PREVIOUS: Final = "cancel_previous"
ALLOW: Final = "allow"
DEFAULT_CONCURRENT: Final = 10
"""Overlap `allow`: how many runs may be open at once where the schedule does not say."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one occurrence stands: it has the slot, waits in line for it, runs beside it, or is skipped for a reason."""

    holds_slot: bool = False
    beside: bool = False
    apart: bool = False
    skipped: Literal["overlap", "queue_full"] | None = None


@dataclass(slots=True)
class Turn:
    """How the occurrences of one batch find their schedule's slot; moves with each that is given its place.

    Attributes:
        policy: what becomes of one that meets a run of an earlier batch.
        room: how many may wait for a run of an earlier batch.
        most: for `allow`: how many may go on at once, the one with the slot among them.
        taken: a run has the slot, of this batch or an earlier one.
        held: runs of an earlier batch are in the way, with the slot or beside it; never under `allow`.
        waiting: runs that wait for those.
        beside: open runs beside the slot.
    """

    policy: Overlap
    room: int
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
        """Return the same once way was made: the batch waits for what still holds the slot, none of it is skipped."""
        return replace(self, taken=way.slot_run_id is not None, held=False)

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
        if self.held:
            if self.waiting >= self.room:
                return Place(skipped="queue_full" if self.policy == QUEUE_ALL else "overlap")
            self.waiting += 1
        found_free, self.taken = not self.taken, True
        return Place(holds_slot=found_free)


def turn_of(commit: Commit, schedule: Schedule) -> Turn:
    """Return how a batch that falls due now finds its schedule's slot."""
    spec, slot_run_id = schedule.spec, schedule.slot_run_id
    beside = lines.count_beside(commit.db, schedule.schedule_id)
    taken = slot_run_id is not None
    held = spec.overlap != ALLOW and (taken or beside > 0)
    room = {QUEUE_ONE: 1, QUEUE_ALL: spec.queue_limit}.get(spec.overlap, 0)
    waiting = lines.count_in_line(commit.db, schedule.schedule_id, room) if held and room else 0
    if held and beside and slot_run_id is not None and _is_pending(commit, slot_run_id):
        waiting += 1  # with the slot it is the next, and waits for those beside it like the others
    return Turn(spec.overlap, room, beside_limit(spec), taken, held, waiting, beside)


def beside_limit(spec: ScheduleSpec) -> int:
    """Return how many runs beside the slot are too many for the run with the slot to be launched."""
    return (spec.max_concurrent or DEFAULT_CONCURRENT) if spec.overlap == ALLOW else 1


def _is_pending(commit: Commit, run_id: str) -> bool:
    found = commit.db.execute("SELECT state = 'Pending' FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return bool(found[0])


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
    line = [run_id for run_id in lines.line(commit.db, schedule.schedule_id) if run_id != holder]
    displaced = [run_id for run_id in line if _displace(commit, run_id, Cause(actor, "displace", cause))]
    cancelled: list[str] = []
    beside = lines.open_beside(commit.db, schedule.schedule_id)
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
