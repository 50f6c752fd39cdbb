from typing import Any

import pytest

from runner.admission.words import answers, fence_op, report_op
from runner.checkpoint import ops
from runner.checkpoint.results import OpResult
from worker.protocol import (
    Accept,
    Answer,
    AnyReport,
    Binding,
    CannotTell,
    ConfirmStopped,
    FenceRequest,
    Finish,
    Forfeit,
)

OF: dict[str, Any] = {"run_id": "r1", "attempt": 2, "incarnation": "i1", "ledger": "l1", "evidence": "words"}


@pytest.mark.parametrize(
    ("report", "op"),
    [
        (
            Accept(**OF, execution_id="e1", started_ms=5),
            ops.AcceptOp("w1", "r1", 2, "i1", "l1", "e1", 5, "words"),
        ),
        (
            Finish(**OF, succeeded=True, exit_code=0, ended_ms=9, tail="not kept"),
            ops.FinishOp("w1", "r1", 2, "i1", "l1", True, None, 0, 9, "", "words"),
        ),
        (
            Finish(**OF, succeeded=False, reason="exit", exit_code=1, ended_ms=9, tail="kept"),
            ops.FinishOp("w1", "r1", 2, "i1", "l1", False, "exit", 1, 9, "kept", "words"),
        ),
        (
            ConfirmStopped(**OF, consumed=False, ended_ms=9),
            ops.ConfirmStoppedOp("w1", "r1", 2, "i1", "l1", False, None, 9, "words"),
        ),
        (Forfeit(**OF), ops.ForfeitOp("w1", "r1", 2, "i1", "l1", "words")),
        (CannotTell(**OF), ops.LoseOp("r1", 2, "cannot_tell", "w1", "l1", "words")),
    ],
)
def test_each_report_is_an_operation_of_the_worker_that_authenticated(report: AnyReport, op: ops.Op) -> None:
    assert report_op("w1", report) == op


def test_a_tail_is_cut_to_bytes_and_never_inside_a_character() -> None:
    op = report_op("w1", Finish(**OF, succeeded=False, reason="exit", ended_ms=9, tail="ä" * 1_000 + "b"))
    assert isinstance(op, ops.FinishOp)
    assert op.tail == "ä" * 511 + "b"


def test_a_fence_is_asked_for_by_who_authenticated_not_by_who_the_binding_names() -> None:
    binding = Binding("c", 1, "demo", "s1", "o", "r1", 2, "node1", 3, "somebody", "i1", "l1", "d", "default")
    assert fence_op("w1", FenceRequest(binding)) == ops.FenceOp("r1", 2, "worker_asked", "w1")


def test_every_answer_is_final_and_a_plain_refusal_becomes_one() -> None:
    results = [OpResult("granted", token=7, again=True), OpResult("denied", "not_due"), OpResult("refused", "no_owner")]
    assert answers(results, refused="evidence").items == [
        Answer("granted", token=7),
        Answer("denied", "not_due"),
        Answer("evidence", "no_owner"),
    ]
