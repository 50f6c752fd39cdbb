"""Every row of the design's section 5 about a worker, with real processes: what each crash or loss leaves.

Launches are counted by what the launched commands wrote to disk. One message is stopped at a proxy, or a process halts
at one place between two durable steps and is killed there; nothing waits for a length of time.
"""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes.cluster import wait_for
from tests.processes.crash_rows.door import claims, finishes, grants
from tests.processes.crash_rows.hand import Hand, attempts, moves
from tests.processes.crash_rows.yard import yard_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]
AT_ONCE = 18
SUCCEEDED = ("Succeeded", None)


def running(hand: Hand) -> str:
    """Start worker and run, and wait until its acceptance is on record; returns the run's id."""
    hand.start()
    run_id = hand.trigger()
    hand.until_attempt(run_id, "Accepted")
    hand.launched()
    return run_id


def left_unknown(hand: Hand, run_id: str, *evidence: str) -> None:
    """Wait until the run is Unknown and its trail holds what the worker's next life says; nothing was tried again."""
    shown = hand.until(
        run_id, "Unknown", lambda run: all(words in run["attempts"][0]["evidence"] for words in evidence)
    )
    assert [state for state, _ in attempts(shown)] == ["Unknown"], "and its retries are left"


def claim_reply_lost(hand: Hand) -> None:
    lost = hand.door.losing("poll", "reply", claims)
    hand.start()
    run_id = hand.trigger()
    lost.wait()
    hand.let_go()
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED]
    assert hand.effects() == [1]


def dies_before_asking(hand: Hand) -> None:
    ask = hand.door.gate("permits", "request")
    hand.start()
    run_id = hand.trigger()
    ask.wait()
    hand.kill()
    ask.drop()
    hand.until_attempt(run_id, "NotLaunched")
    hand.let_go()
    hand.start()
    shown = hand.until(run_id, "Succeeded")
    *fenced, last = attempts(shown)
    assert {state for state, _ in fenced} == {"NotLaunched"}, (
        "until its silence shows, it may be given the next one too"
    )
    assert (last, moves(shown, "admit")) == (SUCCEEDED, 1)
    assert hand.effects() == [len(fenced) + 1]


def permit_reply_lost(hand: Hand) -> None:
    lost = hand.door.losing("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    lost.wait()
    hand.let_go()
    shown = hand.until(run_id, "Succeeded")
    first, *repeats = hand.door.answers("permits")
    assert repeats, "it asked once more"
    assert {answer["token"] for answer in repeats} == {first["token"]}
    assert (attempts(shown), moves(shown, "admit"), hand.effects()) == ([SUCCEEDED], 1, [1])


def restarts_before_consuming(hand: Hand) -> None:
    reply = hand.door.gate("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    reply.wait()
    hand.kill()
    reply.drop()
    hand.start()
    left_unknown(hand, run_id, "reserved_only")
    assert hand.effects() == [], "a permit is never inherited, nor given anew"


def grant_expires(hand: Hand) -> None:
    reply = hand.door.gate("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    reply.wait()
    hand.until_attempt(run_id, "Failed")
    reply.let_through()
    _tried_again(hand, run_id)


def sleeps_on_its_grant(hand: Hand) -> None:
    """Its host is suspended, in effect: the grant is there when it wakes, and too old."""
    reply = hand.door.gate("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    reply.wait()
    hand.signal(signal.SIGSTOP)
    hand.until(run_id, "Unknown")
    reply.let_through()
    hand.signal(signal.SIGCONT)
    _tried_again(hand, run_id)


def drains_before_consuming(hand: Hand) -> None:
    reply = hand.door.gate("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    reply.wait()
    hand.signal(signal.SIGTERM)
    assert hand.ended() == 0
    reply.drop()
    hand.start()
    _tried_again(hand, run_id)


def _tried_again(hand: Hand, run_id: str) -> None:
    hand.let_go()
    shown = hand.until(run_id, "Succeeded")
    assert attempts(shown) == [("Failed", "not_consumed"), SUCCEEDED]
    assert hand.effects() == [2]


def dies_after_consuming(hand: Hand) -> None:
    _killed_at(hand, "consumed")
    assert hand.effects() == []


def dies_while_submitting(hand: Hand) -> None:
    _killed_at(hand, "submitting")
    assert hand.effects() in ([], [1])


def dies_before_keeping_the_receipt(hand: Hand) -> None:
    _killed_at(hand, "submitted")
    hand.launched()
    assert hand.effects() == [1]


def _killed_at(hand: Hand, place: str) -> None:
    hand.start(halt_at=place)
    run_id = hand.trigger()
    hand.halted()
    hand.kill()
    hand.start()
    left_unknown(hand, run_id, "consumed_without_receipt")


def work_outlives_its_worker(hand: Hand) -> None:
    run_id = running(hand)
    pid = process_of(hand, run_id)
    hand.kill()
    hand.start()
    left_unknown(hand, run_id, "observer_lost", f"it was process {pid}; alive now: process(es) ")
    assert hand.effects() == [1]


def work_dies_with_its_worker(hand: Hand) -> None:
    run_id = running(hand)
    pid = process_of(hand, run_id)
    hand.kill()
    os.kill(int(pid), signal.SIGKILL)
    wait_for("its end", lambda: not Path(f"/proc/{pid}").exists())
    hand.start()
    left_unknown(hand, run_id, "observer_lost", f"it was process {pid}; no process of its tree")
    assert hand.effects() == [1]


def process_of(hand: Hand, run_id: str) -> str:
    """Return the process id of the command, as the worker told the owner."""
    (attempt,) = hand.shown(run_id)["attempts"]
    return str(attempt["execution_id"].split("/")[1])


def disk_is_lost(hand: Hand) -> None:
    run_id = running(hand)
    hand.kill()
    hand.lose_disk()
    hand.start()
    left_unknown(hand, run_id)
    assert hand.effects() == [1]


def two_hosts_under_one_name(hand: Hand) -> None:
    run_id = running(hand)
    hand.start_twin()
    wait_for("the second one to be refused", lambda: any(each.status == 409 for each in hand.door.exchanges))
    hand.let_go()
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED]
    assert hand.effects() == [1]


def finish_report_lost(hand: Hand) -> None:
    run_id = running(hand)
    on_its_way = hand.door.losing("reports", "request", finishes)
    on_its_way_back = hand.door.losing("reports", "reply", finishes)
    hand.let_go()
    on_its_way.wait()
    on_its_way_back.wait()
    shown = hand.until(run_id, "Succeeded")
    wait_for("its repetition", lambda: sum(finishes(each.asked, each.reply) for each in hand.door.exchanges) > 1)
    assert (attempts(shown), moves(hand.shown(run_id), "finish"), hand.effects()) == ([SUCCEEDED], 1, [1])


def silent_while_its_work_ends(hand: Hand) -> None:
    run_id = running(hand)
    hand.signal(signal.SIGSTOP)
    assert attempts(hand.until(run_id, "Unknown")) == [("Unknown", "worker_out_of_contact")]
    hand.let_go()
    hand.signal(signal.SIGCONT)
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED], "the ledger's durable record resolves it, once"
    assert hand.effects() == [1]


def cut_off_while_its_work_ends(hand: Hand) -> None:
    run_id = running(hand)
    hand.door.open = False
    hand.until(run_id, "Unknown")
    hand.let_go()
    hand.door.open = True
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED]
    assert hand.effects() == [1]


def told_twice_to_end(hand: Hand) -> None:
    run_id = running(hand)
    while hand.ended(0.1) is None:
        hand.signal(signal.SIGTERM)
    assert hand.ended() == 1, "work was running: the first signal alone would have waited for it"
    hand.start()
    left_unknown(hand, run_id, "observer_lost")
    assert hand.effects() == [1]


def cancelled_before_it_starts(hand: Hand) -> None:
    """C54 (c): the stop comes before the grant is heard of, and the grant afterwards."""
    reply = hand.door.gate("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    reply.wait()
    hand.cancel(run_id)
    shown = hand.until(run_id, "Cancelled")
    reply.let_through()
    assert [state for state, _ in attempts(shown)] == ["Cancelled"]
    assert "consumed=False" in shown["attempts"][0]["evidence"]
    hand.signal(signal.SIGTERM)
    assert hand.ended() == 0, "it has heard of the grant by now"
    assert hand.effects() == []


@dataclass(frozen=True)
class Row:
    """A row of section 5: the crash or loss, what is left of it, and the story that shows it."""

    name: str
    crash: str
    left: str
    story: Callable[[Hand], None]


ROWS = (
    Row("claim-reply", "claim reply lost", "the next poll lists it again", claim_reply_lost),
    Row("before-asking", "after claim, worker dies before asking", "NotLaunched, then the next attempt", dies_before_asking),
    Row("permit-reply", "permit reply lost, worker alive", "the same permit, learnt again", permit_reply_lost),
    Row("new-life", "permit committed, worker restarts before consuming", "Unknown", restarts_before_consuming),
    Row("expiry", "grant expiry passes before consuming", "forfeit: Failed(not_consumed), tried again", grant_expires),
    Row("asleep", "the same, while the worker stands still", "the same, even after it was lost", sleeps_on_its_grant),
    Row("drain", "worker drains before consuming", "the same", drains_before_consuming),
    Row("consumed", "after consume, before submit", "Unknown", dies_after_consuming),
    Row("submitting", "during submit", "Unknown", dies_while_submitting),
    Row("no-receipt", "submit accepted, receipt not persisted", "Unknown", dies_before_keeping_the_receipt),
    Row("outlived", "accepted, worker restarts, engine lives on unseen", "Unknown, naming it", work_outlives_its_worker),
    Row("died-with-it", "accepted, worker restarts, engine died with it", "Unknown, with proof", work_dies_with_its_worker),
    Row("disk", "worker's disk lost", "Unknown", disk_is_lost),
    Row("twins", "two hosts under one worker name", "the second is refused", two_hosts_under_one_name),
    Row("report", "finish report lost, on its way and back", "repeated until answered", finish_report_lost),
    Row("silent", "worker stands still past its contact", "Unknown, until its record comes", silent_while_its_work_ends),
    Row("cut-off", "worker is cut off past its contact", "Unknown, until its record comes", cut_off_while_its_work_ends),
    Row("cancelled", "cancelled between permit and consume", "Cancelled, never launched", cancelled_before_it_starts),
    Row("twice", "worker is told twice to end", "as a crash", told_twice_to_end),
)  # fmt: skip
"""The row of a remote, addressable engine has no engine yet; those of owners and quorums are in `test_owner_rows.py`."""


def test_every_crash_of_a_worker_leaves_what_the_design_says(tmp_path: Path) -> None:
    with (
        yard_of(tmp_path, [row.name for row in ROWS], voters=1, patience_s=2.0) as yard,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        told = [(row, pool.submit(row.story, yard.hands[row.name])) for row in ROWS]
        wrong = [f"{row.crash} -> {row.left}: {fault!r}" for row, story in told if (fault := story.exception())]
        assert not wrong, "\n".join(wrong)
