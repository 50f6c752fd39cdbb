"""Overlap `cancel_previous`: what becomes of earlier runs when a later one wants their place."""

from dataclasses import dataclass
from typing import Final

from runner.checkpoint import queries
from runner.checkpoint import run as runs_of
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.records import RunState, Schedule

OVERLAP: Final = "overlap"
CANCEL_PREVIOUS: Final = "cancel_previous"


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
    if holder is not None:
        if _displace(commit, holder, Cause(actor, "displace", cause)):
            displaced.append(holder)
        elif _cancel(commit, holder, Cause(actor, "cancel", cause)):
            cancelled.append(holder)
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
