"""Attempts in every state, and a fitting command of every kind, for walks over the tables."""

from dataclasses import replace
from typing import Any

from runner.checkpoint import attempt_words as words
from runner.checkpoint.attempt import step
from runner.checkpoint.records import Attempt, AttemptState
from worker.protocol import Binding

BINDING = Binding(
    cluster_id="c",
    generation=1,
    namespace="demo",
    schedule_id="s",
    occurrence="1970-01-01T00:00:01Z",
    run_id="r",
    attempt=1,
    owner="node1",
    epoch=1,
    worker="w1",
    incarnation="a",
    ledger="disk",
    digest="d",
    authority="default",
)
WHO = {"worker": "w1", "incarnation": "a", "ledger": "disk"}
NOW_MS = 1_000


def claim(n: int = 1, **changes: Any) -> words.Claim:
    values = {
        "run_id": "r",
        "n": n,
        **WHO,
        "owner": "node1",
        "epoch": 1,
        "generation": 1,
        "pool": "default",
        "digest": "d",
    }
    return words.Claim(
        **{**values, "authorities": frozenset({"default"}), "namespace": "demo", "namespaces": None, **changes}
    )


def admit(**changes: Any) -> words.Admit:
    return words.Admit(**{"asked": BINDING, "stored": BINDING, "reservation": "x1", "token": 7, **changes})


def accept(**changes: Any) -> words.Accept:
    return words.Accept(**{**WHO, "execution_id": "e1", "started_ms": 10, **changes})


def finish(*, succeeded: bool = True, **changes: Any) -> words.Finish:
    result = {"succeeded": succeeded, "reason": None if succeeded else "exit", "exit_code": 0 if succeeded else 1}
    return words.Finish(**{**WHO, **result, "ended_ms": 20, **changes})


def stopped(*, consumed: bool = True, **changes: Any) -> words.ConfirmStopped:
    return words.ConfirmStopped(**{**WHO, "consumed": consumed, "exit_code": None, "ended_ms": 30, **changes})


def forfeit(**changes: Any) -> words.Forfeit:
    return words.Forfeit(**{**WHO, **changes})


def lose(why: str = "cannot_tell", worker: str | None = "w1", ledger: str | None = "disk") -> words.Lose:
    return words.Lose(why=why, worker=worker, ledger=ledger)


def attest(row_revision: int = 0, **changes: Any) -> words.Attest:
    said = {"attester": "Rita", "statement": "gone", "evidence": "ticket 7", "row_revision": row_revision}
    return words.Attest(**{**said, **changes})


RESTORE = words.Restore(run_id="r", n=1, pool="default", digest="d", generation=2)


def after(*commands: words.Command, n: int = 1) -> Attempt:
    """Return the attempt that these commands lead to, each of them taking effect."""
    attempt: Attempt | None = None
    for command in (claim(n), *commands):
        attempt, decision = step(attempt, command, words.Facts(next_n=n), now_ms=NOW_MS)
        assert isinstance(decision, words.Moved | words.Granted), (command, decision)
    assert attempt is not None
    return attempt


def in_state(state: AttemptState, n: int = 1) -> Attempt:
    """Return an attempt that came to this state by moves of the table."""
    ways: dict[AttemptState, tuple[words.Command, ...]] = {
        AttemptState.CLAIMED: (),
        AttemptState.ADMITTED: (admit(),),
        AttemptState.ACCEPTED: (admit(), accept()),
        AttemptState.CANCELLING: (admit(), words.Cancel()),
        AttemptState.UNKNOWN: (admit(), lose("worker_out_of_contact", None)),
        AttemptState.SUCCEEDED: (admit(), finish()),
        AttemptState.FAILED: (admit(), finish(succeeded=False)),
        AttemptState.CANCELLED: (admit(), words.Cancel(), stopped()),
        AttemptState.NOT_LAUNCHED: (words.Fence(why="claim_deadline", worker=None),),
        AttemptState.QUIESCED: (admit(), lose("worker_out_of_contact", None), attest()),
    }
    return after(*ways[state], n=n)


def superseded(n: int = 1) -> Attempt:
    return replace(in_state(AttemptState.UNKNOWN, n), superseded=True)


def unresolved() -> Attempt:
    return after(admit(), words.Cancel(), lose("stop_deadline", None))
