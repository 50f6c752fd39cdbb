"""Lists in pages: each row once, in order, whatever is added between two pages, and in bounded work for any tenant."""

from typing import Any

import pytest

from cluster.bearer import Principal
from runner.checkpoint import queries
from runner.checkpoint.marks import BadMark, EventMark, RunMark
from runner.management import reading
from tests.unit.management.fakes import (
    NOW_MS,
    OPERATOR,
    TENANT,
    Voter,
    cluster,
    decoded,
    put,
    put_event,
    put_run,
    put_schedule,
    spec,
)

DEMO, OTHER = spec(), spec("other", "tock")


def run_id(at_ms: int, tail: int = 0) -> str:
    """An id as the product makes them: 48 bits of the instant come first."""
    digits = f"{at_ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-8000-8000-{tail:012x}"


def filled(voter: Voter, count: int = 12) -> None:
    """Runs of two namespaces, two of each instant, and a skipped range that ends at a run's instant."""
    for row in (DEMO, OTHER):
        put_schedule(voter.db, row)
    for n in range(count):
        at_ms = NOW_MS + n * 1_000
        put_run(voter.db, run_id(at_ms, 1), DEMO, at_ms, "Unknown" if n == 3 else "Succeeded")
        put_run(voter.db, run_id(at_ms, 2), OTHER, at_ms)
        for row in (DEMO, OTHER):
            put_event(voter.db, 2 * n + (row is OTHER) + 1, run_id(at_ms, 1 + (row is OTHER)), "materialise")
    for row, first_ms in ((DEMO, NOW_MS + 500), (OTHER, NOW_MS + 600), (DEMO, NOW_MS + 5_500)):
        put(
            voter.db, "skips", schedule_id=row.schedule_id, first_ms=first_ms, last_ms=first_ms // 1_000 * 1_000 + 1_000,
            namespace=row.namespace, schedule=row.name, count=2, reason="overlap", revision=4,
        )  # fmt: skip


async def pages(
    voter: Voter, path: str, *, parameter: str = "before", principal: Principal = OPERATOR, **query: str
) -> list[list[Any]]:
    found = []
    reply = await voter.ask("GET", path, principal=principal, **query)
    while True:
        found.append(decoded(reply))
        mark = reply.headers.get("Fencepost-Next")
        if mark is None:
            return found
        reply = await voter.ask("GET", path, principal=principal, **query, **{parameter: mark})


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("principal", [OPERATOR, TENANT])
async def test_pages_of_runs_put_together_are_the_whole_list(limit: int, principal: Principal) -> None:
    voter, _ = cluster()
    filled(voter)
    (whole,) = await pages(voter, "/v1/runs", principal=principal, limit="1000")
    assert len(whole) == (12 + 2 if principal is TENANT else 24 + 3)
    assert {row["namespace"] for row in whole} == ({"demo"} if principal is TENANT else {"demo", "other"})
    instants = [row.get("scheduled_until") or row["scheduled_for"] for row in whole]
    assert instants == sorted(instants, reverse=True)
    parts = await pages(voter, "/v1/runs", principal=principal, limit=str(limit))
    assert [row for part in parts for row in part] == whole
    assert all(len(part) == limit for part in parts[:-1])


@pytest.mark.parametrize("query", [{"state": "Unknown"}, {"state": "Skipped"}, {"schedule": "demo/tick"}])
async def test_pages_keep_to_what_was_asked_for(query: dict[str, str]) -> None:
    voter, _ = cluster()
    filled(voter)
    (whole,) = await pages(voter, "/v1/runs", limit="1000", **query)
    parts = await pages(voter, "/v1/runs", limit="1", **query)
    assert [row for part in parts for row in part] == whole
    (mine,) = await pages(voter, "/v1/runs", principal=TENANT, limit="1000", **query)
    assert mine == [row for row in whole if row["namespace"] == "demo"]


async def test_what_comes_between_two_pages_moves_none_of_the_rows_behind_them() -> None:
    voter, _ = cluster()
    filled(voter)
    reply = await voter.ask("GET", "/v1/runs", limit="4")
    (whole,) = await pages(voter, "/v1/runs", limit="1000")
    put_run(voter.db, run_id(NOW_MS + 60_000), DEMO, NOW_MS + 60_000)
    after = await voter.ask("GET", "/v1/runs", limit="1000", before=reply.headers["Fencepost-Next"])
    assert decoded(reply) + decoded(after) == whole


async def test_events_go_on_after_the_mark_and_a_tenant_pages_through_what_it_may_not_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 4)
    voter, _ = cluster()
    filled(voter)
    parts = await pages(voter, "/v1/events", limit="3")
    assert [row["revision"] for part in parts for row in part] == list(range(24, 0, -1))
    parts = await pages(voter, "/v1/events", principal=TENANT, limit="3")
    assert [row["revision"] for part in parts for row in part] == list(range(23, 0, -2))
    assert max(len(part) for part in parts) == 2, "no page looks at more than the bound"
    named = await pages(voter, "/v1/events", limit="1", run_id=run_id(NOW_MS, 1))
    assert [row["revision"] for part in named for row in part] == [1]


async def test_schedules_by_name_and_only_those_of_the_credential() -> None:
    voter, _ = cluster()
    for namespace in ("demo", "other"):
        for n in range(5):
            put_schedule(voter.db, spec(namespace, f"s{n}"))
    parts = await pages(voter, "/v1/schedules", parameter="after", limit="3")
    names = [f"{row['namespace']}/{row['name']}" for part in parts for row in part]
    assert names == [f"{namespace}/s{n}" for namespace in ("demo", "other") for n in range(5)]
    parts = await pages(voter, "/v1/schedules", parameter="after", principal=TENANT, limit="2")
    assert [row["name"] for part in parts for row in part] == [f"s{n}" for n in range(5)]


def test_a_tenants_list_costs_no_query_per_schedule_and_no_walk_over_the_others() -> None:
    voter, _ = cluster()
    filled(voter)
    said: list[str] = []
    voter.db.set_trace_callback(said.append)
    found = queries.runs(voter.db, schedule_id=None, state=None, limit=50, namespaces=["demo"])
    voter.db.set_trace_callback(None)
    assert len(found) == 14
    for statement in said:
        plan = [row[3] for row in voter.db.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert any("_of_namespace" in step for step in plan), plan
        assert not any(step.startswith(("SCAN", "USE TEMP")) for step in plan), plan
    assert len(said) == 10, "one for each state, one for the ranges"


@pytest.mark.parametrize("mark", [RunMark(-5, 0, "s1"), RunMark(NOW_MS, 1, run_id(NOW_MS)), EventMark(7, 3)])
def test_a_mark_is_read_as_it_was_written(mark: RunMark | EventMark) -> None:
    assert type(mark).read(str(mark)) == mark


@pytest.mark.parametrize("text", ["", "1", "1.2.3", "1.0.", "x.0.s", "1.0.s'; --", "1.0.s\n", "9" * 30 + ".0.s"])
def test_no_other_text_is_a_mark(text: str) -> None:
    with pytest.raises(BadMark):
        RunMark.read(text)
    if text != "1.2.3":
        with pytest.raises(BadMark):
            EventMark.read(text)
