"""What a schedule's policies may say, from a body to the op and back to what people read."""

from typing import Any

import msgspec
import pytest

from runner.checkpoint.ops import Apply, Retry
from runner.management.bodies import RetryBody
from runner.management.policies import BadPolicy, retention_of, retry_of
from tests.unit.management.fakes import NOW_MS, cluster, decoded, put_run, put_schedule, spec

TICK: dict[str, Any] = {"namespace": "demo", "name": "tick", "every_s": 60, "command": {"argv": ["true"]}}
WHOLE = {"attempts": 3, "backoff_ms": 2_000, "factor": 1.5, "max_ms": 60_000, "on_exit_codes": [75, -9, 75]}


async def test_the_whole_policy_reaches_the_op_in_whole_numbers() -> None:
    voter, _ = cluster()
    body = {"schedules": [TICK | {"retry": WHOLE, "retention_s": 3_600}, TICK | {"name": "plain"}]}
    assert (await voter.ask("POST", "/v1/apply", body)).status == 200
    (op,) = voter.owner.ops
    assert isinstance(op, Apply)
    first, plain = op.schedules
    assert first.retry == Retry(3, 2_000, 1_500, 60_000, (-9, 75))
    assert (first.retention_s, plain.retention_s, plain.retry) == (3_600, 30 * 86_400, Retry())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"retry": {"factor": 0.999}}, "retry.factor: 0.999 is out of range; 1 to 100 is right"),
        ({"retry": {"factor": 1.0001}}, "retry.factor: 1.0001 has more than three decimals"),
        ({"retry": {"attempts": 2**31}}, "retry.attempts: 2147483648 is too large"),
        ({"retry": {"max_ms": 604_800_001}}, "retry.max_ms: it is longer than 7 days"),
        ({"retry": {"backoff_ms": 300_001}}, "retry.backoff_ms: the first pause is longer than max"),
        ({"retry": {"on_exit_codes": [1, 0]}}, "retry.on_exit_codes: 0 is no exit code of a failure"),
        ({"retention_s": 0}, "retention_s: 0 s is out of range; 1 s to 3650 d is right"),
        ({"retention_s": 10**10}, "retention_s: 10000000000 s is out of range"),
    ],
)
async def test_a_policy_that_cannot_be_meant_is_refused_by_key(changes: dict[str, Any], words: str) -> None:
    voter, _ = cluster()
    reply = await voter.ask("POST", "/v1/apply", {"schedules": [TICK | changes]})
    assert reply.status == 422
    assert words in decoded(reply)["detail"]
    assert decoded(reply)["detail"].startswith("schedule demo/tick: ")


@pytest.mark.parametrize("retry", [{"attempt": 3}, {"on_exit_codes": []}, {"backoff_ms": -1}, {"factor": "2"}])
async def test_a_malformed_policy_is_no_body(retry: dict[str, Any]) -> None:
    voter, _ = cluster()
    assert (await voter.ask("POST", "/v1/apply", {"schedules": [TICK | {"retry": retry}]})).status == 400


def test_every_factor_of_three_decimals_is_kept_exactly() -> None:
    for factor_milli in (*range(1_000, 10_000), *range(10_000, 100_001, 97)):
        assert retry_of(RetryBody(factor=factor_milli / 1_000)).factor_milli == factor_milli
    for factor in (float("nan"), float("inf"), -1.5):
        with pytest.raises(BadPolicy, match="out of range"):
            retry_of(RetryBody(factor=factor))
    assert retention_of(1) == 1


async def test_a_run_and_a_schedule_state_their_policy() -> None:
    voter, _ = cluster()
    row = spec(retry=Retry(3, 2_000, 1_500, 60_000, (-9, 75)), retention_s=3_600)
    put_schedule(voter.db, row)
    put_run(voter.db, "r1", row, NOW_MS)
    voter.db.execute("UPDATE runs SET attempts_allowed = 2, factor_milli = 2500, on_exit_codes = '-9,75'")
    stated = decoded(await voter.ask("GET", "/v1/schedules"))[0]
    told = {"attempts": 3, "backoff_ms": 2_000, "factor": 1.5, "max_ms": 60_000, "on_exit_codes": [-9, 75]}
    assert (stated["retry"], stated["retention_s"], stated["attempts"]) == (told, 3_600, 3)
    assert msgspec.convert(stated["retry"], RetryBody) == RetryBody(3, 2_000, 1.5, 60_000, (-9, 75)), "as it is written"
    shown = decoded(await voter.ask("GET", "/v1/runs/r1"))["retry"]
    assert shown == {"attempts": 2, "backoff_ms": 1_000, "factor": 2.5, "max_ms": 300_000, "on_exit_codes": [-9, 75]}
