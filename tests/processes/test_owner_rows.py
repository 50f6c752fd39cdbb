"""The rows of the design's section 5 about owners and quorums, with three real voters; see `test_crash_rows.py`.

The voters reach each other through proxies, so that one can be cut off, and are killed or stopped at a place that the
worker's own proxy holds. One row follows the other: each ends with three voters that are linked.
"""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes.cluster import fresh_key, wait_for
from tests.processes.crash_rows.door import Gate, grants
from tests.processes.crash_rows.hand import Hand, attempts, moves
from tests.processes.crash_rows.yard import Yard, yard_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]
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
    hand.start()
    running = hand.trigger()
    hand.until_attempt(running, "Accepted")
    hand.launched()
    waiting = yard.trigger("quorum-2")
    second = yard.hands["quorum-2"]
    ask = second.door.gate("permits", "request")
    second.start()
    ask.wait()
    owner = yard.owner()
    yard.kill(*yard.others(owner))
    ask.let_through()
    told = wait_for("the answer", lambda: second.door.of("permits"))
    assert (told[0].status, told[0].reply["certainty"]) == (503, "unknown")
    status, answer = yard.once("/v1/trigger", {"namespace": "test", "name": "quorum"})
    assert (status, answer["certainty"]) in {(503, "unknown"), (503, "not_done")}
    hand.let_go()
    wait_for("running work to run on, to its end", hand.ended_by_itself)
    assert second.effects() == [], "no new permits"
    yard.start(*yard.others(owner))
    ends_once(hand, running)
    ends_once(second, waiting)


def owner_is_told_to_end(yard: Yard, hand: Hand) -> None:
    hand.start()
    run_id = hand.trigger()
    hand.until_attempt(run_id, "Accepted")
    hand.launched()
    owner = yard.owner()
    yard.signal(signal.SIGTERM, owner)
    successor = yard.owner(owner)
    assert yard.ended(owner) == 0
    assert successor in yard.others(owner)
    assert hand.shown(run_id)["state"] == "Active"
    ends_once(hand, run_id)
    yard.start(owner)


def cancel_meets_a_failover(yard: Yard, hand: Hand) -> None:
    """C54 (f): a follower is asked while nobody owns; the answer is clear, and a repetition with its key final."""
    hand.start()
    run_id = hand.trigger()
    hand.until_attempt(run_id, "Accepted")
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


@dataclass(frozen=True)
class Row:
    """A row of section 5: the crash or loss, what is left of it, and the story that shows it."""

    name: str
    crash: str
    left: str
    story: Callable[[Yard, Hand], None]


ROWS = (
    Row("commit-1", "before commit 1", "still due; the next owner materialises it", owner_dies_before_commit_1),
    Row("takeover", "owner dies, permit's reply lost", "the permit stays valid", owner_dies_with_a_permit_s_reply),
    Row("stopped", "owner changes while it stands still", "its proposals fail", owner_stands_still_with_an_ask),
    Row("parted", "owner changes while it is cut off", "its proposals fail", owner_is_cut_off_with_an_ask),
    Row("quorum", "quorum lost", "no permits, work runs on, answers are unknown", quorum_is_lost),
    Row("cancel", "a cancel meets a failover", "applied once, or clearly refused", cancel_meets_a_failover),
    Row("sigterm", "runner stopping, another voter healthy", "leadership moves", owner_is_told_to_end),
)


def test_every_change_of_owners_leaves_what_the_design_says(tmp_path: Path) -> None:
    with yard_of(tmp_path, [*(row.name for row in ROWS), "quorum-2"], voters=3, patience_s=30.0) as yard:
        for row in ROWS:
            try:
                row.story(yard, yard.hands[row.name])
            except AssertionError as fault:
                raise AssertionError(f"{row.crash} -> {row.left}: {fault}") from fault
