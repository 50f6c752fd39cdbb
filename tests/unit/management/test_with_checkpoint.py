"""Management over the real state machine: what is asked here, decided there, and read back."""

from typing import Any

import msgspec

from cluster.listener import Reply
from runner.checkpoint import queries
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.ops import Acquire, ClaimOp, Command, Materialise, Op, encode
from runner.checkpoint.results import OpResult, from_builtins
from tests.unit.management.fakes import CLUSTER, NOW_MS, RECOVERY, FakeOwner, Voter, cluster, decoded

TICK: dict[str, Any] = {"namespace": "demo", "name": "tick", "every_s": 60, "command": {"argv": ["true"]}}
NAME = {"namespace": "demo", "name": "tick"}


class LiveOwner(FakeOwner):
    """A loop without a cluster: each op is one command on the checkpoint itself."""

    def live(self, voter: Voter) -> None:
        self.voter, self.machine = voter, Checkpoint(CLUSTER)
        for table in ("head", "pools"):
            voter.db.execute(f"DELETE FROM {table}")
        voter.db.execute("INSERT INTO head VALUES (1, ?, 1, 0, NULL, 0, 0, 0, 0, NULL)", (CLUSTER,))
        voter.db.execute("INSERT INTO pools VALUES ('default', 64, 0)")
        self.commit(Acquire("node1"))

    def commit(self, op: Op) -> OpResult:
        head = queries.head(self.voter.db)
        command = Command(1, head.epoch, head.revision, self.voter.clock.now_ms, "node1", (op,))
        result = from_builtins(self.machine.apply(self.voter.db, encode(command)))
        assert result.verdict == "applied"
        return result.results[0]

    async def submit(self, op: Op) -> OpResult:
        return self.commit(op)


def live_cluster() -> tuple[Voter, Voter, LiveOwner]:
    live = LiveOwner("node1", "node1")
    owner, follower = cluster(first=live)
    live.live(owner)
    return owner, follower, live


def key(n: int) -> str:
    return f"019b76da-a800-7000-8000-{n:012x}"


async def change(voter: Voter, path: str, body: object, n: int, **more: Any) -> Reply:
    return await voter.ask("POST", path, body, key=key(n), **more)


async def test_a_repeat_through_another_voter_hears_what_the_first_one_heard() -> None:
    owner, follower, _ = live_cluster()
    assert (await change(owner, "/v1/apply", {"schedules": [TICK]}, 1)).status == 200
    first = decoded(await change(follower, "/v1/trigger", NAME, 2))
    again = decoded(await change(owner, "/v1/trigger", NAME, 2))
    assert first["again"] is False
    assert again == first | {"again": True}
    listed = decoded(await follower.ask("GET", "/v1/runs"))
    assert [(row["run_id"], row["state"], row["scheduled_for"]) for row in listed] == [
        (first["run_id"], "Pending", None)
    ]
    assert listed[0]["triggered_at"] == "2026-01-01T00:00:00Z"
    other = await change(owner, "/v1/trigger", {"namespace": "demo", "name": "tock"}, 2)
    assert (other.status, decoded(other)["reason"]) == (422, "key_reused")
    swapped = await change(owner, "/v1/disable", NAME, 2)
    assert (swapped.status, decoded(swapped)["reason"]) == (422, "key_reused")


async def test_what_a_dry_run_announces_is_what_an_apply_does() -> None:
    owner, _, _ = live_cluster()
    body = {"pools": [{"name": "big", "limit": 2}], "schedules": [TICK, TICK | {"name": "tock", "pool": "big"}]}
    announced = decoded(await owner.ask("POST", "/v1/apply", body, dry_run="true"))
    assert (announced["creates"], announced["pools"]) == (["demo/tick", "demo/tock"], ["big"])
    assert decoded(await owner.ask("GET", "/v1/schedules")) == []
    done = decoded(await change(owner, "/v1/apply", body, 1))
    assert [each["outcome"] for each in done["schedules"]] == ["created", "created"]
    repeated = decoded(await owner.ask("POST", "/v1/apply", body, dry_run="true"))
    assert (repeated["creates"], repeated["changes"], repeated["pools"]) == ([], [], [])
    assert repeated["unchanged"] == ["demo/tick", "demo/tock"]
    edited = {"schedules": [TICK | {"every_s": 61, "jitter_ms": 1_000, "overlap": "allow", "retention_s": 60}]}
    told = decoded(await owner.ask("POST", "/v1/apply", edited, dry_run="true"))
    assert told["changes"] == ["demo/tick"]
    keys = ["trigger", "overlap", "retention", "jitter", "max_concurrent"]
    assert told["differences"] == {"demo/tick": keys}


async def test_an_unknown_pool_is_refused_by_name_and_nothing_is_created() -> None:
    owner, _, _ = live_cluster()
    reply = await change(owner, "/v1/apply", {"schedules": [TICK, TICK | {"name": "tock", "pool": "bgi"}]}, 1)
    assert reply.status == 422
    assert "schedule demo/tock, pool bgi" in decoded(reply)["detail"]
    assert decoded(await owner.ask("GET", "/v1/schedules")) == []


async def test_planned_skipped_claimed_and_cancelled_runs_read_as_they_are() -> None:
    owner, _, live = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [TICK]}, 1)
    row = queries.schedules(owner.db)[0]
    owner.clock.now_ms = NOW_MS + 125_000
    due = (NOW_MS + 60_000, NOW_MS + 120_000)
    for after_ms, at_ms in zip((NOW_MS, *due), due, strict=False):
        plan = Materialise(row.schedule_id, row.definition_revision, after_ms, at_ms, (), (at_ms,))
        assert live.commit(plan).kind == "done"
    skipped, planned = decoded(await owner.ask("GET", "/v1/runs"))
    assert (skipped["state"], skipped["reason"], skipped["count"]) == ("Skipped", "overlap", 1)
    assert (planned["state"], planned["scheduled_for"]) == ("Pending", "2026-01-01T00:01:00Z")
    assert live.commit(ClaimOp(planned["run_id"], 1, "w1", "a4", "l1", ("default",))).kind == "claimed"
    shown = decoded(await owner.ask("GET", f"/v1/runs/{planned['run_id']}"))
    assert (shown["state"], shown["holds_slot"], shown["attempts"][0]["state"]) == ("Active", True, "Claimed")
    attest = {"run_id": planned["run_id"], "attempt": 1, "attester": "R", "statement": "s", "evidence": "e"}
    attest["row_revision"] = shown["attempts"][0]["row_revision"]
    refused = await change(owner, "/v1/attest", attest, 2, principal=RECOVERY)
    assert (refused.status, decoded(refused)["state"]) == (409, "Claimed")
    cancelled = await change(owner, "/v1/cancel", {"run_id": planned["run_id"]}, 3)
    assert decoded(cancelled)["state"] == "Cancelled"
    ended = await change(owner, "/v1/cancel", {"run_id": planned["run_id"]}, 4)
    assert (ended.status, decoded(ended)["reason"], decoded(ended)["state"]) == (409, "terminal", "Cancelled")
    absent = await change(owner, "/v1/cancel", {"run_id": "absent"}, 5)
    assert (absent.status, decoded(absent)["reason"]) == (404, "no_such_run")
    told = decoded(await owner.ask("GET", "/v1/status"))
    assert {state: count for state, count in told["runs"].items() if count} == {"Cancelled": 1, "Skipped": 1}


async def test_every_answer_of_the_checkpoint_can_be_written_as_json() -> None:
    owner, _, _ = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [TICK]}, 1)
    for n, (path, body) in enumerate(
        [("/v1/disable", NAME), ("/v1/enable", NAME), ("/v1/enable", {"namespace": "demo", "name": "no"})], 2
    ):
        reply = await change(owner, path, body, n)
        assert msgspec.json.decode(reply.body)["again"] is False
        assert reply.status == (404 if n == 4 else 200)


async def test_a_deleted_schedule_is_not_listed_its_runs_are_and_an_apply_revives_it() -> None:
    owner, follower, _ = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [TICK]}, 1)
    before = decoded(await owner.ask("GET", "/v1/schedules"))[0]
    triggered = decoded(await change(owner, "/v1/trigger", NAME, 2))
    deleted = decoded(await change(follower, "/v1/delete", NAME, 3))
    assert deleted == {"schedule_id": before["schedule_id"], "open_runs": 1, "unchanged": False, "again": False}
    assert decoded(await change(owner, "/v1/delete", NAME, 3)) == deleted | {"again": True}
    assert decoded(await owner.ask("GET", "/v1/schedules")) == []
    for query in ({}, {"schedule": "demo/tick"}, {"schedule": "demo/tick", "state": "Pending"}):
        assert [row["run_id"] for row in decoded(await owner.ask("GET", "/v1/runs", **query))] == [triggered["run_id"]]
    for n, path in enumerate(("/v1/trigger", "/v1/enable", "/v1/disable"), 4):
        refused = await change(owner, path, NAME, n)
        assert (refused.status, decoded(refused)["reason"]) == (409, "schedule_deleted")
        assert "apply it again to bring it back" in decoded(refused)["detail"]
    body = {"schedules": [TICK]}
    announced = decoded(await owner.ask("POST", "/v1/apply", body, dry_run="true"))
    assert (announced["revives"], announced["creates"], announced["unchanged"]) == (["demo/tick"], [], [])
    assert [each["outcome"] for each in decoded(await change(owner, "/v1/apply", body, 8))["schedules"]] == ["revived"]
    after = decoded(await owner.ask("GET", "/v1/schedules"))[0]
    assert (after["schedule_id"], after["slot_run_id"]) == (before["schedule_id"], triggered["run_id"])
    absent = await change(owner, "/v1/delete", {"namespace": "demo", "name": "no"}, 9)
    assert (absent.status, decoded(absent)["reason"]) == (404, "no_such_schedule")


async def test_a_one_shot_is_listed_with_its_instant_and_refused_in_words_once_it_has_passed() -> None:
    owner, _, _ = live_cluster()
    once = {key: value for key, value in TICK.items() if key != "every_s"}
    later = once | {"at": "2026-01-01T03:00:00+02:00"}
    assert decoded(await owner.ask("POST", "/v1/apply", {"schedules": [later]}, dry_run="true"))["creates"] == [
        "demo/tick"
    ]
    assert (await change(owner, "/v1/apply", {"schedules": [later]}, 1)).status == 200
    (listed,) = decoded(await owner.ask("GET", "/v1/schedules"))
    assert (listed["at"], listed["cron"], listed["every_s"], listed["anchor"]) == (
        "2026-01-01T01:00:00Z",
        None,
        None,
        None,
    )
    assert listed["next"]["at"] == "2026-01-01T01:00:00Z"
    again = decoded(await change(owner, "/v1/apply", {"schedules": [once | {"at": "2026-01-01T01:00:00Z"}]}, 2))
    assert [each["outcome"] for each in again["schedules"]] == ["unchanged"], "the same instant, written otherwise"
    past = {"schedules": [once | {"name": "tock", "at": "2025-12-31T22:59:58Z"}]}
    for reply in (
        await owner.ask("POST", "/v1/apply", past, dry_run="true"),
        await change(owner, "/v1/apply", past, 3),
    ):
        assert (reply.status, decoded(reply)["certainty"]) == (422, "not_done")
        assert "demo/tock" in decoded(reply)["detail"]
        assert "longer ago than its catch-up window" in decoded(reply)["detail"]
