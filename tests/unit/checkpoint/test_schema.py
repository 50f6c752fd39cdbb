import sqlite3
from collections.abc import Callable
from dataclasses import replace

from runner.checkpoint import ops, queries
from runner.checkpoint.attempt import holds_capacity
from runner.checkpoint.commit import Commit
from runner.checkpoint.machine import TABLES
from runner.checkpoint.records import AttemptState
from runner.checkpoint.results import OpResult
from runner.checkpoint.schema import HOLDING, OPEN
from runner.checkpoint.waiting import Walk
from runner.view import Wants, read
from tests.unit.checkpoint import pairs
from tests.unit.checkpoint.book import SCHEDULE, Book, owned_book, spec
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


GROWING = ("runs", "attempts", "skips", "events", "operations", "payloads")
"""Tables that grow with time; how many schedules, pools and open attempts there are is up to people."""


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
    """Return the tables that a plan walks through from end to end, or sorts as a whole."""
    return [part for part in plan.split("; ") if part.startswith("SCAN") and part.split()[1] in GROWING]


def test_what_the_owner_asks_for_each_turn_is_found_by_index() -> None:
    book = owned_book()
    book.admitted(1_000)
    book.now_ms = 2_000
    book.materialise(2_000)
    wants = Wants(2_000, frozenset({("demo", "tick")}), True, (SCHEDULE,), (contact(),), Walk(), retention_after="")
    for statement, plan in plans(book, lambda: read(book.db, wants)).items():
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


def test_a_walk_from_end_to_end_would_be_noticed() -> None:
    book = owned_book()
    (plan,) = plans(book, lambda: book.db.execute("SELECT reason FROM runs WHERE reason = 'x'").fetchall()).values()
    assert scans(plan) == ["SCAN runs"]
