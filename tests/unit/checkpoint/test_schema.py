import sqlite3
from dataclasses import replace

from runner.checkpoint import queries, waiting
from runner.checkpoint.attempt import holds_capacity
from runner.checkpoint.commit import Commit
from runner.checkpoint.machine import TABLES
from runner.checkpoint.records import AttemptState
from runner.checkpoint.schema import HOLDING, OPEN
from tests.unit.checkpoint import pairs
from tests.unit.checkpoint.book import Book, owned_book


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


def test_what_the_owner_asks_for_each_turn_is_found_by_index() -> None:
    book = owned_book()
    for statement in (
        waiting._NEXT_NAMESPACE,
        waiting._IS_THERE,
        waiting._HEADS,
        f"{queries._ATTEMPTS} WHERE {OPEN} AND worker = 'w' AND incarnation = 'a'",
        "SELECT run_id FROM runs WHERE state = 'Pending' AND closing_ms IS NOT NULL AND closing_ms <= 5",
    ):
        named = {"pool": "p", "namespace": "n", "after": "", "limit": 1, "now_ms": 1}
        values = named if ":now_ms" in statement else ("p", "n")[: statement.count("?")]
        plan = " ".join(row[3] for row in book.db.execute(f"EXPLAIN QUERY PLAN {statement}", values))
        assert "SCAN runs" not in plan
        assert "SCAN attempts" not in plan
