from typing import Any

import msgspec
import pytest

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.relay import ReplyLost, Unreachable
from runner.checkpoint.limits import MAX_POOLS
from runner.checkpoint.ops import Apply, AttestOp, CancelOp, Cron, Every, PoolSpec, SetEnabled, Trigger
from runner.checkpoint.results import OpResult
from tests.unit.management.fakes import (
    KEY,
    NOW_MS,
    RECOVERY,
    TENANT,
    TOKENS,
    Voter,
    cluster,
    decoded,
    put_run,
    put_schedule,
    schedule_id,
    spec,
)

TICK: dict[str, Any] = {
    "namespace": "demo",
    "name": "tick",
    "every_s": 60,
    "command": {"argv": ["echo", "s3cret"], "env": {"TOKEN": "s3cret"}},
}
NAME = {"namespace": "demo", "name": "tick"}
ATTEST = {
    "run_id": "r1",
    "attempt": 1,
    "attester": "Rita",
    "statement": "host is off",
    "evidence": "ticket 7",
    "row_revision": 12,
}


def key_of(minted_ms: int) -> str:
    high = f"{minted_ms:012x}"
    return f"{high[:8]}-{high[8:]}-7000-8000-000000000001"


async def test_each_change_becomes_its_op() -> None:
    voter, _ = cluster()
    for path, body, principal in (
        ("/v1/trigger", NAME, None),
        ("/v1/enable", NAME, None),
        ("/v1/disable", NAME, None),
        ("/v1/cancel", {"run_id": "r1"}, None),
        ("/v1/attest", ATTEST, RECOVERY),
    ):
        reply = await voter.ask("POST", path, body, **({"principal": principal} if principal else {}))
        assert reply.status == 200
    trigger, enable, disable, cancel, attest = voter.owner.ops
    assert isinstance(trigger, Trigger)
    assert (trigger.namespace, trigger.name, trigger.operation.key, trigger.operation.principal) == (
        "demo",
        "tick",
        KEY,
        "olga",
    )
    assert isinstance(enable, SetEnabled)
    assert isinstance(disable, SetEnabled)
    assert (enable.enabled, disable.enabled) == (True, False)
    assert isinstance(cancel, CancelOp)
    assert cancel.run_id == "r1"
    assert isinstance(attest, AttestOp)
    assert (attest.attester, attest.row_revision, attest.operation.principal) == ("Rita", 12, "rita")


async def test_apply_draws_an_id_for_each_schedule_and_keeps_what_the_file_says() -> None:
    voter, _ = cluster()
    nightly = {
        "namespace": "demo",
        "name": "nightly",
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "pool": "big",
        "retry": {"attempts": 3},
        "command": {"argv": ["true"], "timeout_ms": 30_000},
    }
    reply = await voter.ask("POST", "/v1/apply", {"pools": [{"name": "big", "limit": 2}], "schedules": [TICK, nightly]})
    assert reply.status == 200
    (op,) = voter.owner.ops
    assert isinstance(op, Apply)
    assert op.pools == (PoolSpec("big", 2),)
    first, second = op.schedules
    assert (first.trigger, first.timezone, first.pool, first.retry.attempts) == (Every(60), "UTC", "default", 1)
    assert (second.trigger, second.timezone, second.target.timeout_ms, second.retry.attempts) == (
        Cron("30 2 * * *"),
        "Europe/Berlin",
        30_000,
        3,
    )
    assert first.schedule_id != second.schedule_id
    assert all(each.schedule_id.startswith("019b76da-a800-7") for each in op.schedules)
    msgspec.msgpack.encode(op)


async def test_the_digest_tells_two_bodies_and_two_paths_apart_and_nothing_else() -> None:
    voter, follower = cluster()
    await voter.ask("POST", "/v1/apply", {"schedules": [TICK]})
    await voter.ask("POST", "/v1/apply", {"schedules": [TICK]})
    await follower.ask("POST", "/v1/apply", {"schedules": [TICK]})
    await voter.ask("POST", "/v1/apply", {"schedules": [TICK | {"every_s": 61}]})
    await voter.ask("POST", "/v1/enable", NAME)
    await voter.ask("POST", "/v1/disable", NAME)
    once, again, relayed, *others = [op.operation.digest for op in voter.owner.ops]
    assert once == again == relayed
    assert len({once, *others}) == 4


@pytest.mark.parametrize(
    ("result", "status", "holds"),
    [
        (OpResult("done", detail={"run_id": "r7"}), 200, {"run_id": "r7", "again": False}),
        (OpResult("done", detail={"state": "Cancelling"}, again=True), 200, {"state": "Cancelling", "again": True}),
        (
            OpResult("refused", "terminal", detail={"state": "Succeeded"}),
            409,
            {"reason": "terminal", "state": "Succeeded", "certainty": "not_done"},
        ),
        (OpResult("refused", "row_changed"), 409, {"reason": "row_changed"}),
        (OpResult("refused", "key_reused"), 422, {"reason": "key_reused", "certainty": "not_done"}),
        (OpResult("refused", "unknown_pool"), 422, {"reason": "unknown_pool"}),
        (OpResult("refused", "no_such_schedule"), 404, {"reason": "no_such_schedule"}),
        (OpResult("no_such_run"), 404, {"reason": "no_such_run"}),
    ],
)
async def test_what_the_checkpoint_decided_is_the_answer(result: OpResult, status: int, holds: dict[str, Any]) -> None:
    owner, follower = cluster()
    owner.owner.answer = result
    for voter in (owner, follower):
        reply = await voter.ask("POST", "/v1/cancel", {"run_id": "r7"})
        assert reply.status == status
        assert decoded(reply).items() >= holds.items()


@pytest.mark.parametrize(
    ("fault", "status", "certainty"),
    [
        (NotApplied(Why.NOT_LEADER), 503, "not_done"),
        (NotApplied(Why.QUEUE_FULL), 429, "not_done"),
        (NotApplied(Why.TOO_LARGE), 413, "not_done"),
        (NotApplied(Why.FAILED_TRIAL, "ValueError: no"), 500, "not_done"),
        (OutcomeUnknown("stepped down"), 503, "unknown"),
    ],
)
async def test_a_fault_says_how_certain_it_is(fault: Exception, status: int, certainty: str) -> None:
    owner, follower = cluster()
    owner.owner.answer = fault
    for voter in (owner, follower):
        reply = await voter.ask("POST", "/v1/trigger", NAME)
        assert (reply.status, decoded(reply)["certainty"]) == (status, certainty)
        assert ("Retry-After" in reply.headers) == (status in {429, 503})


async def test_a_change_at_a_follower_is_done_once_at_the_owner_with_the_callers_bearer() -> None:
    owner, follower = cluster()
    reply = await follower.ask("POST", "/v1/trigger", NAME, principal=TENANT)
    assert reply.status == 200
    (op,) = owner.owner.ops
    assert isinstance(op, Trigger)
    assert op.operation.principal == "tina"
    assert follower.owner.ops == []
    assert [sent.caller for sent in follower.relay.sent] == [b"Bearer " + TOKENS[TENANT]]
    assert "tenant-token" not in repr(follower.relay.sent)


async def test_an_unreachable_owner_is_certainly_not_done_and_a_lost_reply_is_unknown() -> None:
    owner, follower = cluster()
    follower.relay.fails = Unreachable("refused")
    reply = await follower.ask("POST", "/v1/trigger", NAME)
    assert (reply.status, decoded(reply)["certainty"]) == (503, "not_done")
    assert owner.owner.ops == []
    follower.relay.fails, follower.relay.loses = None, ReplyLost("cut off")
    reply = await follower.ask("POST", "/v1/trigger", NAME)
    assert (reply.status, decoded(reply)["certainty"]) == (503, "unknown")
    assert len(owner.owner.ops) == 1


async def test_without_an_owner_a_change_is_certainly_not_done() -> None:
    voter, _ = cluster(owner=None)
    reply = await voter.ask("POST", "/v1/trigger", NAME)
    assert (reply.status, decoded(reply)["certainty"]) == (503, "not_done")
    assert voter.relay.sent == []
    assert "the first election of a new cluster needs all its voters" in decoded(reply)["detail"]


async def test_a_change_that_was_relayed_to_a_voter_that_lost_ownership_goes_no_further() -> None:
    node1, node2 = cluster()
    node1.owner.owned_by = "node2"
    reply = await node2.ask("POST", "/v1/trigger", NAME)
    assert (reply.status, decoded(reply)["certainty"]) == (503, "not_done")
    assert len(node2.relay.sent) == 1
    assert node1.owner.ops == node2.owner.ops == []


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        "not a key",
        "0198c0de-0000-4000-8000-000000000000",
        KEY.upper(),
        "{" + KEY + "}",
        KEY.replace("-", ""),
        key_of(NOW_MS - 7 * 86_400_000),
        key_of(NOW_MS + 2 * 3_600_000),
    ],
)
async def test_a_change_without_a_usable_key_is_refused_everywhere(key: str | None) -> None:
    for voter in cluster():
        reply = await voter.ask("POST", "/v1/trigger", NAME, key=key)
        assert (reply.status, decoded(reply)["certainty"]) == (400, "not_done")
        assert voter.owner.ops == voter.relay.sent == []


@pytest.mark.parametrize("minted_ms", [NOW_MS - 6 * 86_400_000, NOW_MS, NOW_MS + 60_000])
async def test_keys_of_the_last_days_are_taken(minted_ms: int) -> None:
    voter, _ = cluster()
    assert (await voter.ask("POST", "/v1/trigger", NAME, key=key_of(minted_ms))).status == 200


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/v1/trigger", b""),
        ("/v1/trigger", b"{"),
        ("/v1/trigger", b"\xff"),
        ("/v1/trigger", b'{"namespace": "demo", "name": "tick\\n"}'),
        ("/v1/trigger", b'{"namespace": "demo"}'),
        ("/v1/trigger", b'{"namespace": "demo", "name": "tick", "force": true}'),
        ("/v1/cancel", b'{"run_id": ""}'),
        ("/v1/apply", b"[" * 100_000),
        (
            "/v1/apply",
            b'{"schedules": [{"namespace": "demo", "name": "a", "overlap": "queue", "command": {"argv": ["x"]}}]}',
        ),
        ("/v1/apply", b'{"schedules": [{"namespace": "demo", "name": "a", "every_s": 1, "command": {"argv": []}}]}'),
    ],
)
async def test_a_malformed_body_is_refused_before_anything_is_asked(path: str, raw: bytes) -> None:
    voter, _ = cluster()
    reply = await voter.ask("POST", path, raw=raw)
    assert (reply.status, decoded(reply)["certainty"]) == (400, "not_done")
    assert voter.owner.ops == []


@pytest.mark.parametrize("field", ["attester", "statement", "evidence"])
async def test_an_attestation_needs_words_in_every_part(field: str) -> None:
    voter, _ = cluster()
    for blank in ("", "  \n"):
        assert (await voter.ask("POST", "/v1/attest", ATTEST | {field: blank}, principal=RECOVERY)).status == 400
    assert voter.owner.ops == []


def changed(**parts: object) -> dict[str, object]:
    return {"schedules": [TICK | parts]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "names nothing to apply"),
        (changed(every_s=None), "write exactly one of cron, every and at"),
        (changed(cron="* * * * *"), "write exactly one of cron, every and at"),
        (changed(every_s=0), "out of range"),
        (changed(every_s=None, cron="0 0 30 2 *"), "never comes"),
        (changed(at="2026-12-01T10:00:00Z"), "write exactly one of cron, every and at"),
        (changed(every_s=None, at="10:00"), "at '10:00' is not an instant; write 2026-12-01T10:00:00Z"),
        (changed(timezone="Europe/Berln"), "did you mean Europe/Berlin?"),
        (changed(retry={"attempts": 2**31}), "retry.attempts"),
        (changed(command={"argv": [""]}), "command.argv"),
        (changed(command={"argv": ["a\0b"]}), "command.argv"),
        (changed(command={"argv": ["a"], "env": {"FENCEPOST_X": "1"}}), "command.env"),
        (changed(command={"argv": ["a"], "env": {"A=B": "1"}}), "command.env"),
        (changed(command={"argv": ["a"], "cwd": ""}), "command.cwd"),
        (changed(command={"argv": ["a"], "timeout_ms": 2**40}), "command.timeout_ms"),
        (changed(command={"argv": ["a" * 70_000]}), "longer than 65536 bytes"),
        ({"schedules": [TICK, TICK]}, "stands twice"),
        ({"pools": [{"name": "p", "limit": 1}, {"name": "p", "limit": 2}]}, "stands twice"),
        ({"pools": [{"name": "p", "limit": 2**63}]}, "too large"),
    ],
)
async def test_an_apply_that_cannot_be_meant_is_refused_whole(body: object, words: str) -> None:
    voter, _ = cluster()
    for query in ({}, {"dry_run": "true"}):
        reply = await voter.ask("POST", "/v1/apply", body, **query)
        assert reply.status == 422, reply.body
        assert words in decoded(reply)["detail"]
        assert "s3cret" not in decoded(reply)["detail"]
    assert voter.owner.ops == []


def stored(voter: Voter) -> None:
    put_schedule(voter.db, spec("demo", "same", Every(60)))
    put_schedule(voter.db, spec("demo", "tick", Every(61)))


async def test_a_dry_run_says_what_would_change_and_writes_nothing() -> None:
    owner, follower = cluster()
    stored(owner)
    body = {
        "pools": [{"name": "default", "limit": 64}, {"name": "big", "limit": 2}],
        "schedules": [TICK, TICK | {"name": "same"}, TICK | {"name": "new", "pool": "big"}],
    }
    for voter in (owner, follower):
        reply = await voter.ask("POST", "/v1/apply", body, dry_run="true", key=None)
        assert decoded(reply) == {
            "dry_run": True, "creates": ["demo/new"], "changes": ["demo/tick"], "differences": {"demo/tick": ["trigger"]}, "revives": [], "unchanged": ["demo/same"],
            "pools": ["big"], "new_pools": ["big"],
        }  # fmt: skip
    assert owner.owner.ops == []
    assert schedule_id("demo", "tick") not in reply.body.decode()


async def test_a_dry_run_refuses_an_unknown_pool_and_names_the_known_ones() -> None:
    voter, _ = cluster()
    reply = await voter.ask("POST", "/v1/apply", changed(pool="bgi"), dry_run="true")
    assert reply.status == 422
    assert "use one of: default" in decoded(reply)["detail"]
    assert (await voter.ask("POST", "/v1/apply", changed(), dry_run="yes")).status == 400


async def test_a_credential_for_some_namespaces_changes_nothing_else() -> None:
    voter, _ = cluster()
    for row in (spec("other", "tock"), spec()):
        put_schedule(voter.db, row)
    put_run(voter.db, "r1", spec("other", "tock"), NOW_MS, "Active")
    put_run(voter.db, "r2", spec(), NOW_MS + 1, "Active")
    for path, body, status in (
        ("/v1/trigger", {"namespace": "other", "name": "tock"}, 403),
        ("/v1/disable", {"namespace": "other", "name": "tock"}, 403),
        ("/v1/delete", {"namespace": "other", "name": "tock"}, 403),
        ("/v1/apply", {"schedules": [TICK, TICK | {"namespace": "other"}]}, 403),
        ("/v1/apply", {"pools": [{"name": "p", "limit": 1}]}, 403),
        ("/v1/cancel", {"run_id": "r1"}, 404),
        ("/v1/cancel", {"run_id": "r3"}, 404),
    ):
        assert (await voter.ask("POST", path, body, principal=TENANT)).status == status
    assert voter.owner.ops == []
    assert (await voter.ask("POST", "/v1/cancel", {"run_id": "r2"}, principal=TENANT)).status == 200


async def test_bodies_are_json() -> None:
    owner, follower = cluster()
    route, _ = owner.table.find("POST", "/v1/trigger")
    assert route.roles == frozenset({"operator"})
    reply = await follower.ask("POST", "/v1/trigger", NAME)
    assert reply.content_type == "application/json"
    assert follower.relay.sent[0].content_type == "application/json"


async def test_more_pools_than_one_apply_takes_are_refused_before_they_are_proposed() -> None:
    voter, _ = cluster()
    body = {"pools": [{"name": f"p{n}", "limit": 1} for n in range(MAX_POOLS + 1)]}
    reply = await voter.ask("POST", "/v1/apply", body)
    assert reply.status == 400
    assert str(MAX_POOLS) in decoded(reply)["detail"]
