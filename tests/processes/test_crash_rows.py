"""Every row of the design's section 5 with real processes: what each crash or loss leaves.

Launches are counted by what the launched commands wrote to disk. A message is stopped at a proxy between a worker and the
voters, a worker halts at one place between two durable steps and is killed there, voters are killed, stopped or cut off:
nothing waits for a length of time. The stories stand in `crash_rows/`.

The engine that is remote and addressable is the tests' own (`crash_rows/remote_engine.py`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes.crash_rows import cancel_stories as cancel
from tests.processes.crash_rows import owner_stories as owner
from tests.processes.crash_rows import worker_stories as worker
from tests.processes.crash_rows.hand import Hand
from tests.processes.crash_rows.yard import Yard, yard_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


@dataclass(frozen=True)
class Row:
    """A crash or loss, what is left of it, and the story that shows it."""

    name: str
    crash: str
    left: str
    story: Callable[..., None]


WORKERS = (
    Row("claim-reply", "claim reply lost", "the next poll lists it again", worker.claim_reply_lost),
    Row("before-asking", "after claim, worker dies before asking", "NotLaunched, then the next attempt", worker.dies_before_asking),
    Row("permit-reply", "permit reply lost, worker alive", "the same permit, learnt again", worker.permit_reply_lost),
    Row("new-life", "permit committed, worker restarts before consuming", "Unknown", worker.restarts_before_consuming),
    Row("expiry", "grant expiry passes before consuming", "forfeit: Failed(not_consumed), tried again", worker.grant_expires),
    Row("asleep", "the same, while the worker stands still", "the same, even after it was lost", worker.sleeps_on_its_grant),
    Row("drain", "worker drains before consuming", "the same", worker.drains_before_consuming),
    Row("consumed", "after consume, before submit", "Unknown", worker.dies_after_consuming),
    Row("submitting", "during submit", "Unknown", worker.dies_while_submitting),
    Row("no-receipt", "submit accepted, receipt not persisted", "Unknown", worker.dies_before_keeping_the_receipt),
    Row("remote", "accepted, worker restarts, engine is addressable", "the result", worker.remote_work_is_observed_again),
    Row("recalled", "the same, cancelled meanwhile", "Cancelled", cancel.remote_work_is_stopped_by_a_later_life),
    Row("outlived", "accepted, worker restarts, engine lives on unseen", "Unknown, naming it", worker.work_outlives_its_worker),
    Row("died-with-it", "accepted, worker restarts, engine died with it", "Unknown, with proof", worker.work_dies_with_its_worker),
    Row("disk", "worker's disk lost", "Unknown", worker.disk_is_lost),
    Row("twins", "two hosts under one worker name", "the second is refused", worker.two_hosts_under_one_name),
    Row("report", "finish report lost, on its way and back", "repeated until answered", worker.finish_report_lost),
    Row("silent", "worker stands still past its contact", "Unknown, until its record comes", worker.silent_while_its_work_ends),
    Row("cut-off", "worker is cut off past its contact", "Unknown, until its record comes", worker.cut_off_while_its_work_ends),
    Row("cancelled", "cancelled between permit and consume", "Cancelled, never launched", cancel.cancelled_before_it_starts),
    Row("twice", "worker is told twice to end", "as a crash", worker.told_twice_to_end),
    Row("on-disk", "result recorded, worker killed before it reports", "the result", worker.killed_before_it_reports),
    Row("unheard", "cancelled while the worker is cut off", "unresolved, until confirmed", cancel.cancelled_while_cut_off),
    Row("stop-lost", "cancelled, and the worker killed first", "unresolved", cancel.cancelled_and_killed_before_it_hears),
)  # fmt: skip
OWNERS = (
    Row("commit-1", "before commit 1", "still due; the next owner materialises it", owner.owner_dies_before_commit_1),
    Row("takeover", "owner dies, permit's reply lost", "the permit stays valid", owner.owner_dies_with_a_permit_s_reply),
    Row("stopped", "owner changes while it stands still", "its proposals fail", owner.owner_stands_still_with_an_ask),
    Row("parted", "owner changes while it is cut off", "its proposals fail", owner.owner_is_cut_off_with_an_ask),
    Row("quorum", "quorum lost", "no permits, work runs on, answers are unknown", owner.quorum_is_lost),
    Row("trigger", "owner dies with the reply to a trigger", "one run, known by its key", owner.trigger_s_reply_dies_with_the_owner),
    Row("cancel", "a cancel meets a failover", "applied once, or clearly refused", owner.cancel_meets_a_failover),
    Row("sigterm", "runner stopping, another voter healthy", "leadership moves", owner.owner_is_told_to_end),
)  # fmt: skip
ALONE = (
    Row("alone", "runner stopping, no successor", "nothing begins, what runs is observed", owner.last_owner_is_told_to_end),
    Row("twice", "runner told twice to end", "as a crash", owner.last_owner_is_told_twice_to_end),
)  # fmt: skip


def test_every_crash_of_a_worker_leaves_what_the_design_says(tmp_path: Path) -> None:
    """All rows at once: each has a worker, a pool and a schedule of its own."""
    names = [row.name for row in WORKERS]
    with yard_of(tmp_path, names, voters=1) as yard, ThreadPoolExecutor(len(names)) as pool:
        told = [(row, pool.submit(shown, row, yard.hands[row.name])) for row in WORKERS]
        wrong = [f"{row.crash} -> {row.left}: {fault!r}" for row, story in told if (fault := story.exception())]
        assert not wrong, "\n".join(wrong)


def test_every_change_of_owners_leaves_what_the_design_says(tmp_path: Path) -> None:
    one_after_the_other(tmp_path, OWNERS, ["quorum-2"], voters=3)


def test_an_owner_that_nobody_could_follow_leaves_what_the_design_says(tmp_path: Path) -> None:
    one_after_the_other(tmp_path, ALONE, ["stopped", "late"], voters=1)


def shown(row: Row, hand: Hand, *around: Yard) -> None:
    """Tell the row's story; its worker makes no work for those that come after it."""
    try:
        row.story(*around, hand)
    finally:
        hand.kill()


def one_after_the_other(folder: Path, rows: Sequence[Row], more: list[str], voters: int) -> None:
    with yard_of(folder, [*(row.name for row in rows), *more], voters=voters) as yard:
        for row in rows:
            try:
                shown(row, yard.hands[row.name], yard)
            except AssertionError as fault:
                raise AssertionError(f"{row.crash} -> {row.left}: {fault}") from fault
