"""What a worker goes through in each row of `test_crash_rows.py`: a crash or a loss at an exact place, and what is left."""

import os
import signal
from pathlib import Path

from tests.processes.cluster import wait_for
from tests.processes.crash_rows.door import claims, finishes, grants
from tests.processes.crash_rows.hand import Hand, attempts, moves

SUCCEEDED = ("Succeeded", None)


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
    hand.drops_grants_after(2.0)
    reply = hand.door.gate("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    reply.wait()
    hand.until_attempt(run_id, "Failed")
    reply.let_through()
    _tried_again(hand, run_id)


def sleeps_on_its_grant(hand: Hand) -> None:
    """Its host is suspended, in effect: the grant is there when it wakes, and too old."""
    hand.drops_grants_after(2.0)
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
    first, *more, last = attempts(shown)
    assert (first, last) == (("Failed", "not_consumed"), SUCCEEDED)
    assert set(more) <= {first, ("NotLaunched", "worker_asked")}, "a busy machine may be late once more"
    assert hand.effects() == [len(more) + 2]


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
    hand.start(special=place)
    run_id = hand.trigger()
    hand.halted()
    hand.kill()
    hand.start()
    left_unknown(hand, run_id, "consumed_without_receipt")


def work_outlives_its_worker(hand: Hand) -> None:
    run_id = hand.running()
    pid = process_of(hand, run_id)
    hand.kill()
    hand.start()
    left_unknown(hand, run_id, "observer_lost", f"it was process {pid}; alive now: process(es) ")
    assert hand.effects() == [1]


def work_dies_with_its_worker(hand: Hand) -> None:
    run_id = hand.running()
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


def remote_work_is_observed_again(hand: Hand) -> None:
    """It even ends while nobody looks."""
    run_id = hand.running("remote")
    hand.kill()
    hand.let_go()
    hand.start("remote")
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED]
    assert hand.effects() == [1]


def disk_is_lost(hand: Hand) -> None:
    run_id = hand.running()
    hand.kill()
    hand.lose_disk()
    hand.start()
    left_unknown(hand, run_id)
    assert hand.effects() == [1]


def two_hosts_under_one_name(hand: Hand) -> None:
    run_id = hand.running()
    hand.start_twin()
    wait_for("the second one to be refused", lambda: any(each.status == 409 for each in hand.door.exchanges))
    hand.let_go()
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED]
    assert hand.effects() == [1]


def finish_report_lost(hand: Hand) -> None:
    run_id = hand.running()
    on_its_way = hand.door.losing("reports", "request", finishes)
    on_its_way_back = hand.door.losing("reports", "reply", finishes)
    hand.let_go()
    on_its_way.wait()
    on_its_way_back.wait()
    shown = hand.until(run_id, "Succeeded")
    wait_for("its repetition", lambda: sum(finishes(each.asked, each.reply) for each in hand.door.exchanges) > 1)
    assert (attempts(shown), moves(hand.shown(run_id), "finish"), hand.effects()) == ([SUCCEEDED], 1, [1])


def silent_while_its_work_ends(hand: Hand) -> None:
    run_id = hand.running()
    hand.signal(signal.SIGSTOP)
    assert attempts(hand.until(run_id, "Unknown")) == [("Unknown", "worker_out_of_contact")]
    hand.let_go()
    hand.signal(signal.SIGCONT)
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED], "the ledger's durable record resolves it, once"
    assert hand.effects() == [1]


def cut_off_while_its_work_ends(hand: Hand) -> None:
    run_id = hand.running()
    hand.door.open = False
    hand.until(run_id, "Unknown")
    hand.let_go()
    hand.door.open = True
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED]
    assert hand.effects() == [1]


def told_twice_to_end(hand: Hand) -> None:
    run_id = hand.running()
    while hand.ended(0.1) is None:
        hand.signal(signal.SIGTERM)
    assert hand.ended() == 1, "work was running: the first signal alone would have waited for it"
    hand.start()
    left_unknown(hand, run_id, "observer_lost")
    assert hand.effects() == [1]


def killed_before_it_reports(hand: Hand) -> None:
    """The end is on its disk, and nobody has heard of it."""
    run_id = hand.running()
    hand.door.open = False
    hand.let_go()
    wait_for("the end on record in the ledger", lambda: hand.ledger_states() == ["ended"])
    hand.kill()
    hand.door.open = True
    hand.start()
    assert attempts(hand.until(run_id, "Succeeded")) == [SUCCEEDED]
    assert hand.effects() == [1]
