import sqlite3
from collections.abc import Callable
from dataclasses import replace

import pytest

from runner.checkpoint import lines, ops, queries
from runner.checkpoint.attempt import holds_capacity
from runner.checkpoint.commit import Commit
from runner.checkpoint.machine import TABLES
from runner.checkpoint.records import AttemptState, RunState
from runner.checkpoint.results import OpResult
from runner.checkpoint.schema import HOLDING, OPEN
from runner.checkpoint.waiting import Walk
from runner.view import Wants, read
from tests.unit.checkpoint import pairs
from tests.unit.checkpoint.book import OTHER_SCHEDULE, SCHEDULE, Book, owned_book, spec
from tests.unit.runner.rows import contact
from worker.protocol import CommandTarget


def test_every_table_is_named_and_strict_and_without_rowid() -> None:
    book = Book()
    listed = book.db.execute("PRAGMA table_list").fetchall()
    found = {name: (without, strict) for _, name, _, _, without, strict in listed if not name.startswith("sqlite_")}
    assert set(found) == set(TABLES)
    assert set(found.values()) == {(1, 1)}


def test_create_leaves_the_caller_s_transaction_open() -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("BEGIN")
    Book(db=db)
    assert db.in_transaction
    db.execute("ROLLBACK")
    assert db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() == (0,)
    db.close()


def test_sql_and_table_agree_on_what_holds_capacity_and_what_is_open() -> None:
    book = owned_book()
    every = [pairs.in_state(state) for state in AttemptState]
    attempts = [replace(each, n=n) for n, each in enumerate([*every, pairs.superseded()], 1)]
    for attempt in attempts:
        Commit(book.db, queries.head(book.db), "node1").put_attempt(attempt)
    held = [row[0] for row in book.db.execute(f"SELECT n FROM attempts WHERE {HOLDING} ORDER BY n")]
    assert held == [attempt.n for attempt in attempts if holds_capacity(attempt)]
    is_open = {AttemptState.CLAIMED, AttemptState.ADMITTED, AttemptState.ACCEPTED, AttemptState.CANCELLING}
    found = [row[0] for row in book.db.execute(f"SELECT n FROM attempts WHERE {OPEN} ORDER BY n")]
    assert found == [attempt.n for attempt in attempts if attempt.state in is_open]
    assert queries.attempts(book.db, "r") == attempts


BOUNDED = ("schedules", "pools", "head", "heads", "CONSTANT")
"""What may be walked through from end to end: as much as people wrote, and what a bounded walk found."""


def plans(book: Book, ask: Callable[[], object]) -> dict[str, str]:
    """Return how SQLite goes about each statement that something runs."""
    ran: list[str] = []
    book.db.set_trace_callback(ran.append)
    ask()
    book.db.set_trace_callback(None)
    found = {}
    for statement in (each for each in ran if each.split()[0] in {"SELECT", "WITH", "UPDATE", "DELETE", "INSERT"}):
        rows = book.db.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        found[statement] = "; ".join(row[3] for row in rows)
    assert found, "nothing was asked"
    return found


def scans(plan: str) -> list[str]:
    """Return what a plan walks through from end to end, of tables that grow with time; aliases count as tables."""
    return [part for part in plan.split("; ") if part.startswith("SCAN") and part.split()[1] not in BOUNDED]


@pytest.mark.parametrize("namespaces", [None, frozenset({"demo"})])
def test_what_the_owner_asks_for_each_turn_is_found_by_index(namespaces: frozenset[str] | None) -> None:
    book = owned_book()
    book.now_ms = 2_000
    first, _ = book.materialise(1_000, 2_000).detail["runs"]
    book.claim(first)
    book.admit(first)
    roomy = (contact(namespaces=namespaces),)
    wants = Wants(
        now_ms=2_000,
        edited=frozenset({("demo", "tick")}),
        enabled=True,
        schedules=(SCHEDULE,),
        roomy=roomy,
        served_s=0.0,
        poll_s=5.0,
        walk=Walk(),
        retention_after="",
    )
    found = plans(book, lambda: read(book.db, wants))
    assert any("WITH RECURSIVE" in statement for statement in found), "something waits"
    for statement, plan in found.items():
        # A partial index of what is open is as long as that.
        by_partial_index = {f"SCAN attempts USING INDEX {name}" for name in ("attempts_open", "attempts_holding")}
        assert set(scans(plan)) <= by_partial_index, (statement, plan)


def test_forgetting_is_found_by_index() -> None:
    book = owned_book(spec(retention_s=1))
    book.finish(book.admitted(1_000))
    book.a_run(2_000)
    for now_ms in (3_000, 4_000):
        book.now_ms = now_ms
        book.materialise(now_ms)
    book.apply(spec(retention_s=1, target=CommandTarget(argv=("new",))))
    book.now_ms = 40 * 86_400_000
    result: list[OpResult] = []
    found = plans(book, lambda: result.append(book.do(ops.Prune(SCHEDULE, book.now_ms, 100))))
    assert (result[0].detail["runs"], result[0].detail["skips"]) == (1, 1)
    for statement, plan in found.items():
        assert scans(plan) == [], (statement, plan)


def lists(book: Book) -> None:
    """Ask for all that people ask for: every list, filtered every way, and what `show` and `status` read."""
    for scope in ({"schedule_id": None}, {"schedule_id": SCHEDULE}, {"schedule_id": None, "namespaces": {"demo"}}):
        for state in (None, RunState.FAILED, RunState.SKIPPED):
            queries.runs(book.db, **scope, state=state, limit=50)
    for run_id in (None, "r"):
        queries.events(book.db, run_id=run_id, limit=50)
    queries.counts(book.db)
    queries.open_runs(book.db, SCHEDULE)
    lines.line(book.db, SCHEDULE)
    queries.attempts(book.db, "r")


def test_what_people_ask_for_is_found_by_index_however_many_runs_are_kept() -> None:
    book = owned_book()
    for statement, plan in plans(book, lambda: lists(book)).items():
        # A list of everything, newest first, reads as many rows as it returns, in the order of a key.
        in_order = "WHERE" not in statement and "LIMIT" in statement
        walked = [part for part in scans(plan) if part != "SCAN tallies" and not in_order]
        assert walked == [], (statement, plan)
        assert "TEMP B-TREE" not in plan or "RIGHT PART" in plan or "LAST TERM" in plan, (statement, plan)


def test_tallies_are_what_counting_says() -> None:
    book = owned_book(spec(retention_s=1, overlap="cancel_previous"), spec("other"))
    for n in range(1, 8):
        book.now_ms = n * 1_000
        book.materialise(book.now_ms)
        (run_id,) = lines.line(book.db, SCHEDULE)[:1] or (None,)
        if run_id is not None and book.claim(run_id).kind == "claimed" and n % 3:
            book.admit(run_id)
        if n % 2:
            book.materialise(book.now_ms, name="other")
    book.cancel(lines.line(book.db, OTHER_SCHEDULE)[0])
    book.now_ms = 20_000
    book.do(ops.Prune(SCHEDULE, 3_000, 100))
    told = {state: count for state, count in queries.counts(book.db).items() if count}
    counted = dict(book.db.execute("SELECT state, COUNT(*) FROM runs GROUP BY state").fetchall())
    ranged = book.db.execute("SELECT SUM(count) FROM skips").fetchone()[0]
    assert ranged
    assert len(counted) >= 3
    assert told == counted | {"Skipped": counted.get("Skipped", 0) + ranged}


def test_a_walk_from_end_to_end_would_be_noticed() -> None:
    book = owned_book()
    (plan,) = plans(book, lambda: book.db.execute("SELECT reason FROM runs WHERE reason = 'x'").fetchall()).values()
    assert scans(plan) == ["SCAN runs"]
