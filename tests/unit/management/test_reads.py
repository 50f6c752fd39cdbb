import asyncio
from itertools import pairwise
from typing import Any

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.relay import ReplyLost, Unreachable
from runner.checkpoint.ops import Cron
from runner.management import foreseeing, service
from runner.management.asked import Page
from tests.unit.management.fakes import (
    NOW_MS,
    RECOVERY,
    TENANT,
    TOKENS,
    Voter,
    cluster,
    decoded,
    put,
    put_attempt,
    put_event,
    put_run,
    put_schedule,
    spec,
)

ROWS_AT_ONCE = Page((), None).at_once


def filled(voter: Voter, runs: int = 2) -> None:
    tick, other = spec(), spec("other", "tock", Cron("30 2 * * *"), timezone="Europe/Berlin")
    put_schedule(voter.db, tick, slot="r1")
    put_schedule(voter.db, other, enabled=False)
    for n in range(runs):
        put_run(voter.db, f"r{n}", tick, NOW_MS + n * 60_000)
        put_event(voter.db, n + 1, f"r{n}", "materialise")
    put_attempt(
        voter.db,
        "r1",
        1,
        "Succeeded",
        execution_id="pid 7",
        started_ms=NOW_MS + 11,
        ended_ms=NOW_MS + 1_000,
        exit_code=0,
    )
    put_run(voter.db, "r0x", other, NOW_MS + 30_000, "Unknown", manual=True)
    put_event(voter.db, 90, "r0x", "trigger")
    put_event(voter.db, 91, None, "acquire")
    put(
        voter.db, "skips", schedule_id=tick.schedule_id, first_ms=NOW_MS - 120_000, last_ms=NOW_MS - 60_000,
        namespace="demo", schedule="tick", count=2, reason="overlap", revision=4,
    )  # fmt: skip


async def test_runs_have_exactly_the_promised_form() -> None:
    voter, _ = cluster()
    filled(voter)
    reply = await voter.ask("GET", "/v1/runs")
    assert reply.status == 200
    assert reply.headers == {}
    assert decoded(reply) == [
        {
            "namespace": "demo", "schedule": "tick", "schedule_id": "id-of-demo-tick",
            "scheduled_for": "2026-01-01T00:01:00Z", "run_id": "r1", "state": "Succeeded", "reason": None,
            "caught_up": None, "late_s": 0.0, "beside": False,
            "attempts": [
                {
                    "n": 1, "state": "Succeeded", "worker": "w1", "incarnation": "a4", "epoch": 3,
                    "permit": 1 << 40 | 7, "execution_id": "pid 7", "started_at": "2026-01-01T00:00:00.011Z",
                    "ended_at": "2026-01-01T00:00:01Z", "exit_code": 0,
                }
            ],
        },
        {
            "namespace": "other", "schedule": "tock", "schedule_id": "id-of-other-tock", "scheduled_for": None,
            "triggered_at": "2026-01-01T00:00:30Z", "run_id": "r0x", "state": "Unknown", "reason": None,
            "caught_up": None, "late_s": None, "beside": False, "attempts": [],
        },
        {
            "namespace": "demo", "schedule": "tick", "schedule_id": "id-of-demo-tick",
            "scheduled_for": "2026-01-01T00:00:00Z", "run_id": "r0", "state": "Succeeded", "reason": None,
            "caught_up": None, "late_s": 0.0, "beside": False, "attempts": [],
        },
        {
            "namespace": "demo", "schedule": "tick", "schedule_id": "id-of-demo-tick",
            "scheduled_for": "2025-12-31T23:58:00Z", "scheduled_until": "2025-12-31T23:59:00Z", "count": 2,
            "run_id": None, "state": "Skipped", "reason": "overlap", "attempts": [],
        },
    ]  # fmt: skip


async def ids(voter: Voter, path: str = "/v1/runs", **query: Any) -> list[Any]:
    reply = await voter.ask("GET", path, **query)
    assert reply.status == 200, reply.body
    rows = decoded(reply)
    assert isinstance(rows, list)
    return [row["run_id"] for row in rows]


async def test_runs_are_filtered_by_schedule_state_limit_and_namespace() -> None:
    voter, _ = cluster()
    filled(voter)
    assert await ids(voter, schedule="other/tock") == ["r0x"]
    assert await ids(voter, state="Unknown") == ["r0x"]
    assert await ids(voter, state="Skipped") == [None]
    assert await ids(voter, limit="1") == ["r1"]
    assert await ids(voter, principal=TENANT) == ["r1", "r0", None]
    assert await ids(voter, principal=TENANT, limit="2") == ["r1", "r0"]
    assert await ids(voter, principal=TENANT, state="Unknown") == []


async def test_the_default_limit_is_fifty() -> None:
    voter, _ = cluster()
    filled(voter, runs=60)
    assert len(await ids(voter)) == 50


async def test_events_are_newest_first_and_only_of_ones_own_namespaces() -> None:
    voter, _ = cluster()
    filled(voter)
    reply = await voter.ask("GET", "/v1/events", limit="2")
    assert decoded(reply) == [
        {"revision": 91, "at": "2026-01-01T00:00:00.091Z", "actor": "node1", "run_id": None, "attempt": None, "op": "acquire", "from": None, "to": "Pending", "why": None, "evidence": None},
        {"revision": 90, "at": "2026-01-01T00:00:00.090Z", "actor": "node1", "run_id": "r0x", "attempt": None, "op": "trigger", "from": None, "to": "Pending", "why": None, "evidence": None},
    ]  # fmt: skip
    assert await ids(voter, "/v1/events", run_id="r0") == ["r0"]
    assert await ids(voter, "/v1/events", principal=TENANT) == ["r1", "r0"]
    assert (await voter.ask("GET", "/v1/events", principal=TENANT, run_id="r0x")).status == 404


async def test_schedules_tell_what_comes_next_and_nothing_of_their_commands() -> None:
    voter, _ = cluster()
    filled(voter)
    reply = await voter.ask("GET", "/v1/schedules")
    listed: Any = decoded(reply)
    tick, tock = listed
    assert tick["next"] == {"at": "2026-01-01T00:01:00Z", "local": "2026-01-01T00:01:00+00:00", "rule": None}
    assert (tick["every_s"], tick["cron"], tick["slot_run_id"]) == (60, None, "r1")
    assert (tock["every_s"], tock["cron"], tock["anchor"], tock["enabled"], tock["next"]) == (
        None,
        "30 2 * * *",
        None,
        False,
        None,
    )
    assert b"s3cret" not in reply.body
    assert [row["name"] for row in decoded(await voter.ask("GET", "/v1/schedules", principal=TENANT))] == ["tick"]


async def test_a_schedule_whose_zone_this_voter_does_not_know_is_still_listed() -> None:
    voter, _ = cluster()
    put_schedule(voter.db, spec(timezone="Mars/Olympus"))
    (row,) = decoded(await voter.ask("GET", "/v1/schedules"))
    assert row["next"] is None


async def test_show_says_what_is_known_and_what_is_not() -> None:
    voter, _ = cluster()
    filled(voter)
    put_attempt(voter.db, "r0x", 1, "Unknown", reason="worker_out_of_contact", evidence="pid 9 gone")
    shown: Any = decoded(await voter.ask("GET", "/v1/runs/r0x", principal=RECOVERY))
    assert shown["state"] == "Unknown"
    assert shown["attempts"][0]["row_revision"] == 12
    assert shown["attempts"][0]["reason"] == "worker_out_of_contact"
    assert [event["op"] for event in shown["events"]] == ["trigger"]
    assert "its worker has been out of contact" in shown["unknown_because"]
    assert "Not known: whether it was launched" in shown["unknown_because"]
    assert "Evidence: pid 9 gone" in shown["unknown_because"]
    assert (decoded(await voter.ask("GET", "/v1/runs/r1")))["unknown_because"] is None


async def test_show_says_what_a_pending_run_waits_for() -> None:
    voter, _ = cluster()
    put_schedule(voter.db, spec(), slot="r0")
    for n, state in enumerate(("Active", "Pending", "Pending")):
        put_run(voter.db, f"r{n}", spec(), NOW_MS - 3_000 + n * 1_000, state)
    shown = [decoded(await voter.ask("GET", f"/v1/runs/r{n}"))["waits_for"] for n in range(3)]
    assert shown == [None, *["its turn: run r0 of the same schedule is not finished"] * 2]
    voter.db.execute("UPDATE schedules SET slot_run_id = NULL")
    shown = [decoded(await voter.ask("GET", f"/v1/runs/r{n}"))["waits_for"] for n in (1, 2)]
    assert shown[0].startswith("a worker of pool default")
    assert shown[1] == "its turn: run r1 of the same schedule comes first"
    voter.db.execute("UPDATE pools SET capacity = 0")
    assert decoded(await voter.ask("GET", "/v1/runs/r1"))["waits_for"] == "a place in pool default: 0 of 0 are taken"


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/v1/runs/nope", {}, 404),
        ("/v1/runs", {"schedule": "demo/nope"}, 404),
        ("/v1/runs", {"schedule": "demo"}, 400),
        ("/v1/runs", {"state": "succeeded"}, 400),
        ("/v1/runs", {"limit": "0"}, 400),
        ("/v1/runs", {"limit": "1001"}, 400),
        ("/v1/runs", {"limit": "9" * 5000}, 400),
        ("/v1/runs", {"limit": "-1"}, 400),
        ("/v1/runs", {"colour": "red"}, 400),
        ("/v1/runs", {"before": "yesterday"}, 400),
        ("/v1/runs", {"before": "1.2.x"}, 400),
        ("/v1/runs", {"before": "1.1." + "x" * 65}, 400),
        ("/v1/events", {"before": "7"}, 400),
        ("/v1/events", {"after": "7.0"}, 400),
        ("/v1/schedules", {"limit": "1001"}, 400),
        ("/v1/schedules", {"after": "demo"}, 400),
        ("/v1/schedules", {"before": "demo/tick"}, 400),
        ("/v1/status", {"limit": "1"}, 400),
    ],
)
async def test_a_read_that_cannot_be_meant_is_refused(path: str, query: dict[str, Any], status: int) -> None:
    voter, _ = cluster()
    reply = await voter.ask("GET", path, **query)
    assert reply.status == status
    assert decoded(reply)["certainty"] == "not_done"


async def test_a_namespace_hides_runs_and_schedules_as_if_they_were_not_there() -> None:
    voter, _ = cluster()
    filled(voter)
    hidden = await voter.ask("GET", "/v1/runs/r0x", principal=TENANT)
    absent = await voter.ask("GET", "/v1/runs/r0y", principal=TENANT)
    assert hidden.status == absent.status == 404
    assert hidden.body.replace(b"r0x", b"") == absent.body.replace(b"r0y", b"")
    assert (await voter.ask("GET", "/v1/runs", principal=TENANT, schedule="other/tock")).status == 404


async def test_the_owner_answers_reads_after_a_barrier() -> None:
    owner, _ = cluster()
    filled(owner)
    await owner.ask("GET", "/v1/runs")
    assert owner.node.barriers == 1


async def test_a_follower_relays_once_with_the_callers_own_bearer() -> None:
    owner, follower = cluster()
    filled(owner)
    reply = await follower.ask("GET", "/v1/runs", schedule="demo/tick", limit="2", principal=TENANT)
    assert [row["run_id"] for row in decoded(reply)] == ["r1", "r0"]
    assert "Fencepost-Stale" not in reply.headers
    (sent,) = follower.relay.sent
    assert sent.caller == b"Bearer " + TOKENS[TENANT]
    assert sent.path == "/v1/runs?schedule=demo%2Ftick&limit=2"
    assert owner.node.barriers == 1
    assert follower.node.barriers == 0


@pytest.mark.parametrize("fault", [Unreachable("refused"), ReplyLost("cut off")])
async def test_where_no_owner_is_reached_the_own_checkpoint_answers_and_says_so(fault: Exception) -> None:
    _, follower = cluster()
    filled(follower)
    follower.relay.fails = fault
    reply = await follower.ask("GET", "/v1/runs", limit="1")
    assert reply.status == 200
    assert reply.headers["Fencepost-Stale"] == "40"
    missing = await follower.ask("GET", "/v1/runs/nope")
    assert missing.status == 404
    assert missing.headers["Fencepost-Stale"] == "40"


async def test_where_nobody_owns_the_own_checkpoint_answers_and_says_so() -> None:
    voter, _ = cluster(owner=None)
    reply = await voter.ask("GET", "/v1/runs")
    assert reply.headers["Fencepost-Stale"] == "40"
    assert voter.relay.sent == []


@pytest.mark.parametrize("fault", [NotApplied(Why.NOT_LEADER), OutcomeUnknown("stepped down")])
async def test_an_owner_that_cannot_confirm_that_it_leads_says_stale(fault: Exception) -> None:
    owner, _ = cluster()
    owner.node.barrier_raises = fault
    assert (await owner.ask("GET", "/v1/runs")).headers == {"Fencepost-Stale": "40"}


async def test_an_owner_without_a_quorum_answers_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, follower = cluster()
    monkeypatch.setattr(service, "BARRIER_S", 0.0)
    owner.node.barrier_hangs = True
    assert (await owner.ask("GET", "/v1/runs")).headers == {"Fencepost-Stale": "40"}
    assert (await follower.ask("GET", "/v1/runs")).headers == {"Fencepost-Stale": "40"}


async def test_what_was_relayed_to_a_voter_that_does_not_own_is_not_relayed_again() -> None:
    node1, node2 = cluster()
    node1.owner.owned_by = "node2"  # each believes that the other one owns
    reply = await node2.ask("GET", "/v1/runs")
    assert reply.headers["Fencepost-Stale"] == "40"
    assert len(node2.relay.sent) == 1


async def test_status_is_always_the_asked_voters() -> None:
    owner, follower = cluster()
    filled(owner)
    told: Any = decoded(await owner.ask("GET", "/v1/status"))
    assert told["workers"] == [{"name": "w1", "incarnation": "a4", "last_contact_s": 1.235}]
    assert told["runs"]["Skipped"] == 2
    assert (told["owner"], told["role"], told["clock"], told["epoch"], told["revision"]) == (
        "node1",
        "leader",
        "ok",
        3,
        17,
    )
    other: Any = decoded(await follower.ask("GET", "/v1/status"))
    assert (other["node"], other["owner"], other["workers"], other["clock"]) == ("node2", "node1", None, None)
    assert set(other) == {
        "cluster_id", "generation", "node", "role", "owner", "epoch", "revision", "term", "applied_index",
        "voters", "workers", "runs", "clock", "tzdata", "frozen", "timing", "trouble",
    }  # fmt: skip
    linked = {"name": "node2", "connected": True, "applied_index": 38, "disk_id": "e" * 32, "suffrage": "not_accepted"}
    assert other["voters"][1] == linked
    owner.node.linked_disk = ""
    gone = decoded(await owner.ask("GET", "/v1/status"))["voters"][1]
    assert gone == linked | {"connected": False, "disk_id": None, "suffrage": None}
    assert follower.relay.sent == []


async def test_ready_means_that_a_leader_is_seen() -> None:
    voter, _ = cluster()
    assert decoded(await voter.ask("GET", "/readyz")) == {"ready": True, "leader": "node1"}
    voter.node.leader = None
    reply = await voter.ask("GET", "/readyz")
    assert reply.status == 503
    assert decoded(reply) == {"ready": False, "leader": None, "why": "this voter knows of no leader"}
    assert (await voter.ask("GET", "/healthz")).status == 200


async def test_a_voter_in_trouble_is_not_ready_and_says_why() -> None:
    voter, _ = cluster()
    assert decoded(await voter.ask("GET", "/v1/status"))["trouble"] is None
    voter.node.trouble = "disk full: 3 MiB are free"
    reply = await voter.ask("GET", "/readyz")
    assert reply.status == 503
    assert decoded(reply) == {"ready": False, "leader": "node1", "why": "disk full: 3 MiB are free"}
    assert decoded(await voter.ask("GET", "/v1/status"))["trouble"] == "disk full: 3 MiB are free"


async def test_a_long_list_of_schedules_is_worked_out_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    voter, _ = cluster()
    for n in range(3 * ROWS_AT_ONCE):
        put_schedule(voter.db, spec("demo", f"s{n:03}"))
    looked: list[None] = []

    def counted(*asked: Any) -> Any:
        looked.append(None)
        return original(*asked)

    original = foreseeing.next_run
    monkeypatch.setattr(foreseeing, "next_run", counted)
    beats: list[int] = []

    def beat() -> None:
        beats.append(len(looked))
        if len(looked) < 3 * ROWS_AT_ONCE:
            asyncio.get_running_loop().call_soon(beat)

    asyncio.get_running_loop().call_soon(beat)
    listed = decoded(await voter.ask("GET", "/v1/schedules"))
    assert [row["name"] for row in listed] == [f"s{n:03}" for n in range(3 * ROWS_AT_ONCE)]
    assert max(after - before for before, after in pairwise(beats)) <= ROWS_AT_ONCE
    assert beats[0] <= ROWS_AT_ONCE
