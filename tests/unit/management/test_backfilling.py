"""Backfill, clock accept, trigger beside and enable with catch-up, as an operator asks for them over the real state machine."""

from typing import Any

import pytest

from cluster.problem import Problem
from runner.checkpoint import queries
from runner.checkpoint.ops import Materialise, Missed
from runner.management import backfilling
from runner.management.asked import Read
from runner.management.bodies import BackfillBody
from runner.management.service import _stepped
from tests.unit.management.fakes import NOW_MS, RECOVERY, TENANT, Voter, decoded
from tests.unit.management.test_with_checkpoint import NAME, TICK, LiveOwner, change, live_cluster

HOUR_MS = 3_600_000
HOURLY: dict[str, Any] = {"namespace": "demo", "name": "tick", "cron": "0 * * * *", "command": {"argv": ["true"]}}
SPAN = NAME | {"from": "2025-12-31T20:00:00Z", "to": "2025-12-31T23:30:00Z"}


async def past() -> tuple[Voter, Voter, LiveOwner]:
    """Return a cluster whose hourly schedule was created at the new year, ran at 01:00, and missed 02:00 and 03:00."""
    owner, follower, live = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [HOURLY]}, 1)
    (row,) = queries.schedules(owner.db)
    owner.clock.now_ms = NOW_MS + 4 * HOUR_MS
    one, two, three = (NOW_MS + n * HOUR_MS for n in (1, 2, 3))
    ran = Materialise(row.schedule_id, row.definition_revision, NOW_MS, one, (), (one,), caught_up=1)
    missed = Missed(two, three, 2, "missed_window")
    gone = Materialise(row.schedule_id, row.definition_revision, one, NOW_MS + 4 * HOUR_MS, (missed,), ())
    assert [live.commit(op).kind for op in (ran, gone)] == ["done", "done"]
    return owner, follower, live


async def test_a_dry_run_says_of_each_instant_what_the_backfill_then_does() -> None:
    owner, follower, _ = await past()
    body = NAME | {"from": "2025-12-31T23:00:00Z", "to": "2026-01-01T03:59:59Z"}
    told = decoded(await follower.ask("POST", "/v1/backfill", body | {"dry_run": True}))
    assert told["creates"] == ["2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z"]
    left = [
        {"scheduled_for": "2026-01-01T01:00:00Z", "why": "has_run"},
        {"scheduled_for": "2026-01-01T02:00:00Z", "why": "missed_window"},
        {"scheduled_for": "2026-01-01T03:00:00Z", "why": "missed_window"},
    ]
    assert told["left"] == left
    done = decoded(await change(follower, "/v1/backfill", body, 2))
    assert (len(done["runs"]), done["left"], done["again"]) == (2, left, False)
    listed = {row["run_id"]: row for row in decoded(await owner.ask("GET", "/v1/runs")) if row["run_id"]}
    assert [listed[run_id]["scheduled_for"] for run_id in done["runs"]] == told["creates"]
    assert listed[done["runs"][0]]["late_s"] == 5 * 3_600
    again = decoded(await change(owner, "/v1/backfill", body, 2))
    assert again == done | {"again": True}
    twice = decoded(await change(owner, "/v1/backfill", body, 3))
    assert (twice["runs"], {each["why"] for each in twice["left"]}) == ([], {"has_run", "missed_window"})


async def test_what_the_calendar_leaves_out_is_listed_and_gets_no_run() -> None:
    owner, _, _ = live_cluster()
    excluding = HOURLY | {"exclude": ["wed 21:00-22:00"]}  # 2025-12-31 is a Wednesday
    await change(owner, "/v1/apply", {"schedules": [excluding]}, 1)
    told = decoded(await owner.ask("POST", "/v1/backfill", SPAN | {"dry_run": True}))
    assert told["creates"] == [f"2025-12-31T{hour}:00:00Z" for hour in (20, 22, 23)]
    assert told["left"] == [{"scheduled_for": "2025-12-31T21:00:00Z", "why": "excluded"}]
    done = decoded(await change(owner, "/v1/backfill", SPAN, 2))
    assert (len(done["runs"]), done["left"]) == (3, told["left"])
    await change(owner, "/v1/apply", {"schedules": [HOURLY]}, 3)
    await change(owner, "/v1/delete", NAME, 4)
    assert decoded(await change(owner, "/v1/backfill", SPAN, 2)) == done | {"again": True}


@pytest.mark.parametrize(
    ("span", "status", "words"),
    [
        ({"from": "2025-12-31T20:00:00Z", "to": "2026-01-01T02:00:00Z"}, 422, "2026-01-01T01:00:00Z is not planned yet: end at or before 2026-01-01T00:00:00Z"),
        ({"from": "2025-01-01T00:00:00Z", "to": "2025-12-31T00:00:00Z"}, 422, "at most 1000 instants, and there are more; split it: first to 2025-02-11T15:59:59.999Z, then from 2025-02-11T16:00:00Z"),
        ({"from": "2025-12-31T23:00:00Z", "to": "2025-12-31T22:00:00Z"}, 400, "to '2025-12-31T22:00:00Z' is before from"),
        ({"from": "yesterday", "to": "2025-12-31T22:00:00Z"}, 400, "from 'yesterday' is not an instant"),
        ({"name": "tock"}, 404, "there is no such schedule"),
    ],
)  # fmt: skip
async def test_what_cannot_be_backfilled_is_refused_alike_rehearsed_or_not(
    span: dict[str, str], status: int, words: str
) -> None:
    owner, _, _ = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [HOURLY]}, 1)
    for n, more in enumerate(({}, {"dry_run": True}), 2):
        reply = await change(owner, "/v1/backfill", SPAN | span | more, n)
        assert (reply.status, decoded(reply)["certainty"]) == (status, "not_done")
        assert words in decoded(reply)["detail"]


async def test_a_rehearsal_is_of_one_definition() -> None:
    owner, _, _ = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [HOURLY]}, 1)
    span = {"first": SPAN["from"], "last": SPAN["to"]}
    rehearsal = backfilling.asked(BackfillBody(**NAME, **span, dry_run=True))
    assert isinstance(rehearsal, Read)
    verdicts = await _stepped(rehearsal.query(owner.db))
    assert isinstance(verdicts, Read)
    assert verdicts.query(owner.db)
    await change(owner, "/v1/apply", {"schedules": [HOURLY | {"cron": "30 * * * *"}]}, 2)
    with pytest.raises(Problem, match="was changed since"):
        verdicts.query(owner.db)


async def test_a_deleted_schedule_is_not_backfilled_and_a_disabled_one_is_up_to_then() -> None:
    owner, _, _ = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [HOURLY]}, 1)
    await change(owner, "/v1/disable", NAME, 2)
    owner.clock.now_ms = NOW_MS + 2 * HOUR_MS
    await change(owner, "/v1/freeze", {}, 3)
    later = await change(
        owner, "/v1/backfill", NAME | {"from": "2026-01-01T01:00:00Z", "to": "2026-01-01T02:00:00Z"}, 4
    )
    assert "or enable the schedule first, which is disabled" in decoded(later)["detail"]
    assert decoded(await change(owner, "/v1/backfill", SPAN, 5))["reason"] == "frozen"
    await change(owner, "/v1/delete", NAME, 6)
    for n, more in enumerate(({}, {"dry_run": True}), 7):
        assert "apply it again" in decoded(await change(owner, "/v1/backfill", SPAN | more, n))["detail"]


async def test_other_namespaces_and_roles_are_kept_out() -> None:
    owner, _, _ = live_cluster()
    other = SPAN | {"namespace": "other"}
    for path, body in (("/v1/backfill", other), ("/v1/clock/accept", {})):
        assert (await change(owner, path, body, 1, principal=TENANT)).status == 403
        with pytest.raises(AssertionError):
            await change(owner, path, body, 2, principal=RECOVERY)


async def test_accepting_the_clock_is_on_the_trail() -> None:
    owner, follower, _ = live_cluster()
    assert (await change(follower, "/v1/clock/accept", {}, 1)).status == 200
    assert decoded(await owner.ask("GET", "/v1/events"))[0]["actor"] == "olga"
    assert (await change(owner, "/v1/clock/accept", {"now": "noon"}, 2)).status == 400


async def test_a_run_triggered_beside_is_not_held_up_and_enabling_may_catch_up() -> None:
    owner, _, live = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [TICK]}, 1)
    await change(owner, "/v1/trigger", NAME, 2)
    beside = decoded(await change(owner, "/v1/trigger", NAME | {"overlap": "allow"}, 3))
    assert beside["state"] == "Pending"
    shown = decoded(await owner.ask("GET", f"/v1/runs/{beside['run_id']}"))
    assert (shown["beside"], shown["caught_up"], shown["late_s"]) == (True, None, None)
    assert shown["waits_for"].startswith("a worker of pool default")
    assert (await change(owner, "/v1/trigger", NAME | {"overlap": "skip"}, 4)).status == 400
    await change(owner, "/v1/disable", NAME, 5)
    owner.clock.now_ms = NOW_MS + HOUR_MS
    await change(owner, "/v1/enable", NAME | {"catch_up": True}, 6)
    assert queries.schedules(live.voter.db)[0].watermark_ms == NOW_MS


async def test_a_run_that_waits_for_those_beside_it_since_an_edit_says_so() -> None:
    owner, _, live = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [HOURLY | {"overlap": "allow"}]}, 1)
    (row,) = queries.schedules(owner.db)
    one = NOW_MS + HOUR_MS
    owner.clock.now_ms = one
    live.commit(Materialise(row.schedule_id, row.definition_revision, NOW_MS, one, (), (one,)))
    await change(owner, "/v1/apply", {"schedules": [HOURLY | {"overlap": "queue_one"}]}, 2)
    waiting = decoded(await change(owner, "/v1/trigger", NAME, 3))
    (beside,) = [run for run in decoded(await owner.ask("GET", "/v1/runs")) if run["beside"]]
    shown = decoded(await owner.ask("GET", f"/v1/runs/{waiting['run_id']}"))
    assert shown["waits_for"] == f"its turn: run {beside['run_id']} of the same schedule is not finished"
    free = decoded(await owner.ask("GET", f"/v1/runs/{beside['run_id']}"))
    assert free["waits_for"].startswith("a worker of pool default")
