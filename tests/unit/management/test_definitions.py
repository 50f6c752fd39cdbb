"""A whole definition of a schedule: from a body to the op, what is refused of it, and how it is listed."""

import asyncio
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from runner.checkpoint.ops import AnyOf, Apply, At, CatchUp, Cron, Every, NamedDates
from runner.management import applying
from tests.unit.management.fakes import NOW_MS, Voter, cluster, decoded, put_schedule, spec
from tests.unit.management.test_with_checkpoint import change, live_cluster

TICK: dict[str, Any] = {"namespace": "demo", "name": "tick", "command": {"argv": ["true"]}}
EVERY = TICK | {"every_s": 60}
DAY_MS = 86_400_000
WHOLE: dict[str, Any] = TICK | {
    "triggers": [{"cron": "0 9 * * mon"}, {"every_s": 3_600}, {"at": ["2026-02-02T12:00", "2026-02-01T12:00Z"]}],
    "timezone": "Europe/Berlin",
    "start": "2026-01-02T00:00",
    "end": "2026-12-31T00:00:00Z",
    "max_runs": 7,
    "dst_gap": "skip",
    "dst_fold": "both",
    "exclude": ["sun", "calendar:de", "calendar:de"],
    "catch_up": {"window_s": 86_400, "policy": "all", "limit": 10},
    "jitter_ms": 600_000,
    "overlap": "queue_all",
    "queue_limit": 20,
}
CALENDARS = [{"name": "de", "dates": ["2026-10-03", "2026-12-24..2026-12-26"]}, {"name": "at", "dates": []}]


async def test_a_whole_definition_reaches_the_op() -> None:
    voter, _ = cluster()
    body = {"schedules": [WHOLE], "calendars": CALENDARS}
    assert (await voter.ask("POST", "/v1/apply", body)).status == 200
    (op,) = voter.owner.ops
    assert isinstance(op, Apply)
    (made,) = op.schedules
    at_ms = (NOW_MS + 31 * DAY_MS + DAY_MS // 2, NOW_MS + 32 * DAY_MS + 11 * 3_600_000)  # 12:00 in Berlin is 11:00 UTC
    assert made.trigger == AnyOf((Cron("0 9 * * mon"), Every(3_600), At(at_ms)))
    assert (made.start_ms, made.end_ms) == (NOW_MS + 23 * 3_600_000, NOW_MS + 364 * DAY_MS)
    assert (made.max_runs, made.dst_gap, made.dst_fold, made.jitter_ms) == (7, "skip", "both", 600_000)
    assert made.exclude == ("sun", "calendar:de", "calendar:de")
    assert made.calendars == (NamedDates("de", ("2026-10-03", "2026-12-24..2026-12-26")),)
    assert made.catch_up == CatchUp(86_400, "all", 10)
    assert (made.overlap, made.max_concurrent, made.queue_limit) == ("queue_all", None, 20)


async def test_what_is_not_said_is_as_the_contract_has_it_and_allow_is_bounded() -> None:
    voter, _ = cluster()
    several = TICK | {"name": "named", "at": ["2026-02-01T00:00:00Z"], "overlap": "allow"}
    one = TICK | {"name": "one", "triggers": [{"every_s": 5}]}
    assert (await voter.ask("POST", "/v1/apply", {"schedules": [EVERY, several, one]})).status == 200
    (op,) = voter.owner.ops
    assert isinstance(op, Apply)
    plain, named, single = op.schedules
    assert (plain.catch_up, plain.max_runs, plain.jitter_ms, plain.exclude) == (CatchUp(), None, 0, ())
    assert (plain.overlap, plain.max_concurrent, plain.queue_limit) == ("skip", None, 100)
    assert (named.trigger, named.max_concurrent) == (At((NOW_MS + 31 * DAY_MS,)), 10)
    assert single.trigger == Every(5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"triggers": [{"every_s": 1}]}, "write exactly one of cron, every and at, or several triggers"),
        ({"every_s": None, "triggers": []}, "triggers: 0 triggers are out of range; 1 to 16 is right"),
        ({"every_s": None, "triggers": [{"every_s": 1}] * 17}, "triggers: 17 triggers are out of range"),
        ({"every_s": None, "triggers": [{"every_s": 1}, {}]}, "triggers[1]: write exactly one of cron, every and at"),
        ({"every_s": None, "triggers": [{"every_s": 1}, {"cron": "* *"}]}, "triggers[1].cron: cron '* *' has 2 fields"),
        ({"every_s": None, "triggers": [{"every_s": 0}]}, "triggers[0].every_s: every 0 s is out of range"),
        ({"every_s": None, "at": []}, "at: 0 instants are out of range; 1 to 1000 is right"),
        ({"every_s": None, "at": ["2026-01-01T00:00Z"] * 1_001}, "at: 1001 instants are out of range"),
        ({"every_s": None, "at": ["2026-01-01T00:00Z", "2026-01-01T01:00+01:00"]}, "at[1]: at '2026-01-01T01:00+01:00' is the same"),
        ({"every_s": None, "triggers": [{"at": ["2026-01-01T00:00Z"] * 600}] * 2}, "triggers: 1200 instants in all are too many"),
        ({"every_s": None, "at": ["noon"]}, "at[0]: at 'noon' is not an instant"),
        ({"start": "noon"}, "start 'noon' is not an instant; write 2026-12-01T10:00:00Z"),
        ({"end": "2026-03-29T02:30", "timezone": "Europe/Berlin"}, "end '2026-03-29T02:30' is jumped over"),
        ({"start": "2026-02-01T00:00Z", "end": "2026-01-31T23:59Z"}, "end '2026-01-31T23:59Z' is before start"),
        ({"max_runs": 0}, "max_runs: 0 is out of range; 1 to 2147483647 is right"),
        ({"max_runs": 2**31}, "max_runs: 2147483648 is out of range"),
        ({"exclude": ["someday"]}, "exclude[0]: exclude 'someday' is not an exclusion"),
        ({"exclude": ["sun", "calendar:dee"]}, "exclude[1]: there is no calendar 'dee'; did you mean 'de'?"),
        ({"exclude": ["sun"] * 1_001}, "exclude: 1001 entries are too many; at most 1000 is right"),
        ({"exclude": ["mon-sun"]}, "exclude holds every hour of the week"),
        ({"catch_up": {"window_s": 0}}, "catch_up.window_s: 0 s is out of range; 1 s to 30 d is right"),
        ({"catch_up": {"window_s": 30 * 86_400 + 1}}, "catch_up.window_s: 2592001 s is out of range"),
        ({"catch_up": {"limit": 1_001}}, "catch_up.limit: 1001 is out of range; 1 to 1000 is right"),
        ({"jitter_ms": -1}, "jitter_ms: -1 ms is out of range; 0 s to 24 h is right"),
        ({"jitter_ms": 24 * 3_600_000 + 1}, "jitter_ms: 86400001 ms is out of range"),
        ({"max_concurrent": 2}, 'max_concurrent: 2 goes with overlap = "allow" only, and it is "skip"'),
        ({"overlap": "allow", "queue_limit": 2}, 'queue_limit: 2 goes with overlap = "queue_all" only'),
        ({"overlap": "allow", "max_concurrent": 1_001}, "max_concurrent: 1001 is out of range; 1 to 1000 is right"),
        ({"overlap": "queue_all", "queue_limit": 0}, "queue_limit: 0 is out of range; 1 to 1000 is right"),
        ({"end": "2025-12-31T00:00Z"}, "end"),
        ({"every_s": None, "cron": "0 9 * * sat", "exclude": ["sat"]}, "nothing would run"),
    ],
)  # fmt: skip
async def test_a_definition_that_cannot_be_meant_is_refused_by_schedule_key_and_value(
    changes: dict[str, Any], words: str
) -> None:
    voter, _ = cluster()
    body = {"schedules": [EVERY | changes], "calendars": CALENDARS}
    for query in ({}, {"dry_run": "true"}):
        reply = await voter.ask("POST", "/v1/apply", body, **query)
        assert (reply.status, decoded(reply)["certainty"]) == (422, "not_done"), reply.body
        assert decoded(reply)["detail"].startswith("schedule demo/tick: ")
        assert words in decoded(reply)["detail"]
    assert voter.owner.ops == []


@pytest.mark.parametrize(
    ("calendars", "words"),
    [
        ([{"name": "de", "dates": ["sat"]}], "calendar de: dates[0]: 'sat' is no date; a calendar holds 2026-12-25"),
        ([{"name": "de", "dates": ["2026-02-30"]}], "calendar de: dates[0]: '2026-02-30' names no date"),
        ([{"name": "de", "dates": []}] * 2, "calendar de: name: it stands twice"),
        ([{"name": "de", "dates": ["2026-01-01"] * 10_001}], "calendar de: dates: 10001 dates and ranges are too many"),
    ],
)
async def test_a_calendar_that_cannot_be_meant_is_refused(calendars: object, words: str) -> None:
    voter, _ = cluster()
    reply = await voter.ask("POST", "/v1/apply", {"schedules": [EVERY], "calendars": calendars})
    assert (reply.status, voter.owner.ops) == (422, [])
    assert words in decoded(reply)["detail"]


async def test_what_the_schedules_of_one_apply_carry_is_bounded() -> None:
    voter, _ = cluster()
    days = [f"{year}-01-01" for year in range(2000, 9000)]
    carrying = [EVERY | {"name": f"s{n}", "exclude": ["calendar:de"]} for n in range(8)]
    body = {"schedules": carrying, "calendars": [{"name": "de", "dates": days}]}
    reply = await voter.ask("POST", "/v1/apply", body)
    assert reply.status == 422
    assert (
        "schedule demo/s7: exclude[0]: with calendar 'de' the schedules carry more than 50000"
        in decoded(reply)["detail"]
    )
    body["schedules"] = carrying[:7]
    assert (await voter.ask("POST", "/v1/apply", body)).status == 200


@pytest.mark.parametrize("query", [{}, {"dry_run": "true"}])
async def test_a_long_body_is_looked_at_in_slices(monkeypatch: pytest.MonkeyPatch, query: dict[str, str]) -> None:
    voter, _ = cluster()
    looked: list[None] = []

    def counted(*said: Any) -> Any:
        looked.append(None)
        return original(*said)

    original = applying.spec_of
    monkeypatch.setattr(applying, "spec_of", counted)
    beats: list[int] = []

    def beat() -> None:
        beats.append(len(looked))
        if len(looked) < 100:
            asyncio.get_running_loop().call_soon(beat)

    asyncio.get_running_loop().call_soon(beat)
    body = {"schedules": [EVERY | {"name": f"s{n}"} for n in range(100)]}
    assert (await voter.ask("POST", "/v1/apply", body, **query)).status == 200
    assert len(looked) == 100
    assert max(after - before for before, after in pairwise(beats)) <= 1


async def test_a_repeat_is_answered_with_the_first_result_though_nothing_would_be_left_to_run_now() -> None:
    owner, follower, _ = live_cluster()
    body = {"schedules": [EVERY | {"end": "2026-01-01T01:00:00Z"}]}
    first = decoded(await change(owner, "/v1/apply", body, 1))
    owner.clock.now_ms = NOW_MS + 2 * 3_600_000
    await change(owner, "/v1/freeze", {}, 2)  # so that the checkpoint's own now moves on
    assert decoded(await change(follower, "/v1/apply", body, 1)) == first | {"again": True}
    assert (await change(owner, "/v1/apply", body, 3)).status == 200, "what stands unchanged may have come to its end"
    edited = {"schedules": [EVERY | {"end": "2026-01-01T01:00:01Z"}]}
    assert (await change(owner, "/v1/apply", edited, 4)).status == 422


async def test_named_instants_that_are_late_within_the_window_are_something_left_to_run() -> None:
    owner, _, _ = live_cluster()
    late = TICK | {"at": ["2025-12-31T12:00:00Z"], "catch_up": {"window_s": 43_200}}
    assert (await change(owner, "/v1/apply", {"schedules": [late]}, 1)).status == 200
    excluded = late | {"name": "never", "exclude": ["2025-12-31"]}
    assert (await change(owner, "/v1/apply", {"schedules": [excluded]}, 2)).status == 422


async def test_a_listed_schedule_shows_what_is_not_as_by_default() -> None:
    owner, _, _ = live_cluster()
    schedules = [
        WHOLE,
        EVERY | {"name": "plain"},
        TICK | {"name": "named", "at": ["2026-03-01T00:00Z", "2026-02-01T00:00Z"]},
    ]
    await change(owner, "/v1/apply", {"schedules": schedules, "calendars": CALENDARS}, 1)
    named, plain, whole = decoded(await owner.ask("GET", "/v1/schedules"))
    assert named["at"] == ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]
    assert plain["catch_up"] == {"window_s": 3_600, "policy": "latest", "limit": 100}
    assert whole.keys() - plain.keys() == {
        "triggers", "start", "end", "max_runs", "planned_runs", "dst_gap", "dst_fold", "exclude", "calendars",
        "jitter_ms", "queue_limit",
    }  # fmt: skip
    assert whole["triggers"] == [
        {"cron": "0 9 * * mon"},
        {"every_s": 3_600},
        {"at": ["2026-02-01T12:00:00Z", "2026-02-02T11:00:00Z"]},
    ]
    assert (whole["cron"], whole["every_s"], whole["at"]) == (None, None, None)
    assert (whole["start"], whole["max_runs"], whole["planned_runs"]) == ("2026-01-01T23:00:00Z", 7, 0)
    assert (whole["calendars"], whole["queue_limit"]) == ([{"name": "de", "dates": 2}], 20)
    assert whole["next"] == {"at": "2026-01-01T23:00:00Z", "local": "2026-01-02T00:00:00+01:00", "rule": "jitter"}


async def rows(voter: Voter, **query: str) -> list[dict[str, Any]]:
    reply = await voter.ask("GET", "/v1/next", namespace="demo", name="tick", **query)
    assert reply.status == 200, reply.body
    answer: list[dict[str, Any]] = decoded(reply)
    return answer


async def test_next_shows_what_runs_and_explains_what_does_not() -> None:
    voter, _ = cluster()
    put_schedule(voter.db, spec(trigger=Cron("30 2 * * *"), timezone="Europe/Berlin", exclude=("2026-03-30",)))
    ran = await rows(voter, n="2", after="2026-03-28T12:00:00Z")
    assert [(row["at"], row["rule"]) for row in ran] == [
        ("2026-03-29T01:00:00Z", "gap"),
        ("2026-03-31T00:30:00Z", None),
    ]
    told = await rows(voter, n="3", after="2026-03-28T12:00:00Z", explain="true")
    assert [(row["at"], row["rule"], row["skipped"]) for row in told] == [
        ("2026-03-29T01:00:00Z", "gap", None),
        ("2026-03-30T00:30:00Z", "excluded", "excluded"),
        ("2026-03-31T00:30:00Z", None, None),
    ]
    assert told[1]["because"] == "excluded from 2026-03-30 00:00 until 2026-03-31 00:00"
    assert len(await rows(voter)) == 20


async def test_next_shows_the_start_that_jitter_delays() -> None:
    voter, follower = cluster()
    put_schedule(voter.db, spec(trigger=Every(3_600), jitter_ms=600_000))
    told = await rows(voter, n="5", explain="true")
    assert {row["rule"] for row in told} == {"jitter"}
    delays_s = [
        (datetime.fromisoformat(row["starts"]) - datetime.fromisoformat(row["at"])).total_seconds() for row in told
    ]
    assert all(0 < delay_s <= 600 for delay_s in delays_s)
    assert len(set(delays_s)) == 5
    assert all(row["because"].startswith("jitter delays the start by ") for row in told)
    assert [row["rule"] for row in await rows(follower, n="1")] == ["jitter"], "the owner answers"


async def test_next_stops_where_max_runs_does_and_knows_no_other_schedule() -> None:
    voter, _ = cluster()
    put_schedule(voter.db, spec(max_runs=3))
    voter.db.execute("UPDATE schedules SET planned_runs = 1")
    assert len(await rows(voter)) == 2
    for query in ({"namespace": "demo", "name": "tock"}, {"namespace": "other", "name": "tick"}):
        assert (await voter.ask("GET", "/v1/next", **query)).status == 404
    for query in ({"namespace": "demo"}, {"name": "tick"}, {}):
        assert (await voter.ask("GET", "/v1/next", **query)).status == 400
    for query in ({"n": "0"}, {"n": "1001"}, {"after": "noon"}, {"explain": "yes"}, {"tz": "UTC"}):
        reply = await voter.ask("GET", "/v1/next", namespace="demo", name="tick", **query)
        assert reply.status == 400, query
