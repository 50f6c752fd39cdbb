"""What becomes of a cancellation that meets a crash or a loss, in the rows of `test_crash_rows.py`."""

import signal
from pathlib import Path
from typing import Any

from tests.processes.crash_rows.door import grants
from tests.processes.crash_rows.hand import Hand, attempts


def remote_work_is_stopped_by_a_later_life(hand: Hand) -> None:
    run_id = hand.running("remote")
    hand.kill()
    hand.cancel(run_id)
    hand.start("remote")
    assert [state for state, _ in attempts(hand.until(run_id, "Cancelled"))] == ["Cancelled"]
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


def cancelled_while_cut_off(hand: Hand) -> None:
    """Cancelling is committed, and nobody there hears of it; then the stop is confirmed after all."""
    run_id = hand.running()
    hand.door.open = False
    hand.cancel(run_id)
    shown = hand.until(run_id, "Cancelling", lambda run: run["attempts"][0]["unresolved"])
    assert not hand.ended_by_itself(), "the work runs on: it is not Cancelled"
    assert shown["unknown_because"]
    hand.door.open = True
    assert [state for state, _ in attempts(hand.until(run_id, "Cancelled"))] == ["Cancelled"]
    assert process_is_gone(shown)
    assert (hand.effects(), hand.ended_by_itself()) == ([1], False)


def process_is_gone(shown: dict[str, Any]) -> bool:
    """Return whether the command's process is dead."""
    return not Path(f"/proc/{shown['attempts'][0]['execution_id'].split('/')[1]}").exists()


def cancelled_and_killed_before_it_hears(hand: Hand) -> None:
    """The next life cannot see the work any more, so the stop can never be confirmed: that is for a human."""
    run_id = hand.running()
    hand.door.open = False
    hand.cancel(run_id)
    hand.kill()
    hand.door.open = True
    hand.start()
    shown = hand.until(run_id, "Cancelling", lambda run: "observer_lost" in run["attempts"][0]["evidence"])
    assert [each["unresolved"] for each in shown["attempts"]] == [True]
    assert (hand.effects(), hand.ended_by_itself()) == ([1], False)
