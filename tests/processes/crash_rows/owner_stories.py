"""What owners go through in each row of `test_crash_rows.py`: killed, stopped, cut off or told to end at an exact place."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

from tests.processes.cluster import fresh_key, wait_for
from tests.processes.crash_rows.door import Gate, grants
from tests.processes.crash_rows.hand import Hand, attempts, moves
from tests.processes.crash_rows.yard import Yard

SUCCEEDED = ("Succeeded", None)


def ends_once(hand: Hand, run_id: str) -> None:
    """Let the work end; it was permitted and launched once, and nothing of it was tried again."""
    hand.let_go()
    shown = hand.until(run_id, "Succeeded")
    assert (attempts(shown), moves(shown, "admit"), hand.effects()) == ([SUCCEEDED], 1, [1])


def owner_dies_before_commit_1(yard: Yard, hand: Hand) -> None:
    """It plans the occurrence while no other voter can take it in, and dies with it."""
    owner = yard.owner()
    at_ms = (int(time.time()) + 2) * 1000
    yard.one_shot(hand, at_ms)
    yard.signal(signal.SIGSTOP, *yard.others(owner))
    wait_for("the instant to pass", lambda: time.time() * 1000 > at_ms + 200)
    yard.kill(owner)
    yard.signal(signal.SIGCONT, *yard.others(owner))
    yard.owner()
    yard.start(owner)
    hand.start()
    hand.launched()
    (run,) = wait_for("its row", lambda: yard.get(f"/v1/runs?schedule=test/{hand.name}"))
    ends_once(hand, run["run_id"])
    assert len(yard.get(f"/v1/runs?schedule=test/{hand.name}")) == 1


def owner_dies_with_a_permit_s_reply(yard: Yard, hand: Hand) -> None:
    reply = hand.door.gate("permits", "reply", grants)
    hand.start()
    run_id = hand.trigger()
    reply.wait()
    owner = yard.owner()
    yard.kill(owner)
    yard.owner(owner)
    reply.drop()
    hand.launched()
    first, *repeats = hand.door.answers("permits")
    assert {answer.get("token") for answer in repeats} == {first["token"]}, "the next owner knows of the same permit"
    ends_once(hand, run_id)
    yard.start(owner)


def owner_stands_still_with_an_ask(yard: Yard, hand: Hand) -> None:
    """It wakes up after its time, with a request that it has not looked at."""
    owner = yard.owner()
    run_id, ask = _asked_of(yard, hand, owner)
    yard.signal(signal.SIGSTOP, owner)
    ask.let_through()
    yard.owner(owner)
    yard.signal(signal.SIGCONT, owner)
    _refused_and_then_granted_once(yard, hand, run_id)


def owner_is_cut_off_with_an_ask(yard: Yard, hand: Hand) -> None:
    """The worker reaches the old owner only, which the other voters have replaced."""
    owner = yard.owner()
    run_id, ask = _asked_of(yard, hand, owner)
    yard.links.cut(owner)
    yard.owner(owner)
    ask.let_through()
    _refused_and_then_granted_once(yard, hand, run_id)
    yard.links.mend(owner)


def _asked_of(yard: Yard, hand: Hand, owner: str) -> tuple[str, Gate]:
    """Let a worker ask one voter for a permit; the request is held."""
    hand.door.urls = [yard.admission_url(owner)]
    ask = hand.door.gate("permits", "request")
    hand.start()
    run_id = hand.trigger()
    ask.wait()
    return run_id, ask


def _refused_and_then_granted_once(yard: Yard, hand: Hand, run_id: str) -> None:
    first = wait_for("what the old owner says", lambda: hand.door.of("permits"))[0]
    assert first.status in {421, 503}, "it owns no longer, or cannot tell"
    hand.door.urls = yard.admission_urls
    hand.launched()
    assert [answer["kind"] for answer in hand.door.answers("permits")] == ["granted"]
    ends_once(hand, run_id)


def quorum_is_lost(yard: Yard, hand: Hand) -> None:
    running = hand.running()
    waiting = yard.trigger("quorum-2")
    second = yard.hands["quorum-2"]
    ask = second.door.gate("permits", "request")
    second.start()
    ask.wait()
    owner = yard.owner()
    yard.kill(*yard.others(owner))
    ask.let_through()
    told = wait_for("the answer", lambda: second.door.of("permits"))
    # As a rule "unknown": the owner has proposed it. On a busy machine it may have stepped down before it was asked.
    assert (told[0].status, told[0].reply.get("certainty")) in {(503, "unknown"), (503, "not_done"), (421, None)}
    status, answer = yard.once("/v1/trigger", {"namespace": "test", "name": "quorum"})
    assert (status, answer["certainty"]) in {(503, "unknown"), (503, "not_done")}
    hand.let_go()
    wait_for("running work to run on, to its end", hand.ended_by_itself)
    assert second.effects() == [], "no new permits"
    yard.start(*yard.others(owner))
    ends_once(hand, running)
    ends_once(second, waiting)


def owner_is_told_to_end(yard: Yard, hand: Hand) -> None:
    run_id = hand.running()
    owner = yard.owner()
    yard.signal(signal.SIGTERM, owner)
    successor = yard.owner(owner)
    assert yard.ended(owner) == 0
    assert successor in yard.others(owner)
    assert hand.shown(run_id)["state"] == "Active"
    ends_once(hand, run_id)
    yard.start(owner)


def trigger_s_reply_dies_with_the_owner(yard: Yard, hand: Hand) -> None:
    """C45: it took effect; the voter that passed it on is told nothing, and repeats nothing by itself."""
    owner = yard.owner()
    deaf, other = yard.others(owner)
    asked = ("POST", "/v1/trigger", {"namespace": "test", "name": hand.name}, fresh_key())
    runs = f"/v1/runs?schedule=test/{hand.name}"
    yard.links.mute(owner, deaf)
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(yard.ask, *asked, only=deaf)
        (run,) = wait_for("the run", lambda: yard.get(runs, only=other))
        yard.kill(owner)
        status, answer = told.result()
    assert (status, answer["certainty"]) == (503, "unknown")
    yard.links.mend(owner)
    wait_for("a repetition to be answered", lambda: yard.ask(*asked, only=deaf)[0] == 200)
    _, again = yard.ask(*asked, only=deaf)
    assert (again["again"], again["run_id"]) == (True, run["run_id"])
    assert [each["run_id"] for each in yard.get(runs, only=other)] == [run["run_id"]]
    hand.start()
    ends_once(hand, run["run_id"])
    yard.start(owner)


def cancel_meets_a_failover(yard: Yard, hand: Hand) -> None:
    """C54 (f): a follower is asked while nobody owns; the answer is clear, and a repetition with its key final."""
    run_id = hand.running()
    owner = yard.owner()
    follower = yard.others(owner)[0]
    key = fresh_key()
    yard.kill(owner)
    status, answer = yard.ask("POST", "/v1/cancel", {"run_id": run_id}, key, only=follower)
    assert status == 200 or answer["certainty"] in {"not_done", "unknown"}, answer
    wait_for("done", lambda: yard.ask("POST", "/v1/cancel", {"run_id": run_id}, key, only=follower)[0] == 200)
    shown = hand.until(run_id, "Cancelled")
    assert (moves(shown, "cancel"), [state for state, _ in attempts(shown)]) == (1, ["Cancelled"])
    assert not hand.ended_by_itself()
    yard.start(owner)


def last_owner_is_told_to_end(yard: Yard, hand: Hand) -> None:
    """Nobody could follow: what runs is observed to its end and a stop is passed on, but nothing begins."""
    run_id, stopped, late = hand.running(), yard.hands["stopped"], yard.hands["late"]
    to_cancel, waiting = stopped.running(), late.trigger()
    yard.signal(signal.SIGTERM, *yard.cluster.voters)
    wait_for("it to have heard", lambda: '"stopping"' in yard.cluster.log("node1").read_text())
    late.start()
    stopped.cancel(to_cancel)
    stopped.until(to_cancel, "Cancelled")
    polls = wait_for("what the waiting worker is told", lambda: late.door.of("poll"))
    assert not any(each.reply.get("claims") for each in polls)
    hand.let_go()
    assert yard.ended("node1") == 0
    assert late.effects() == [], "it waited for the next owner"
    yard.start("node1")
    ends_once(hand, run_id)
    ends_once(late, waiting)


def last_owner_is_told_twice_to_end(yard: Yard, hand: Hand) -> None:
    run_id = hand.running()
    while yard.voters["node1"].is_alive():
        yard.signal(signal.SIGTERM, "node1")
        yard.voters["node1"].join(0.1)
    assert yard.ended("node1") == 1, "the first signal alone would have waited for the work"
    yard.start("node1")
    ends_once(hand, run_id)
