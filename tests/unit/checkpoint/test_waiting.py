"""What waits for a worker is found place by place, in work that neither lines nor unserved pools can grow."""

import pytest

from runner.checkpoint import ops, waiting
from runner.checkpoint.waiting import Claimable, Walk, claimable
from tests.unit.checkpoint.book import HOUR_MS, Book, owned_book, spec


def many(book: Book, count: int, *, namespace: str = "demo", pool: str = "default", line: int = 1) -> None:
    """Apply schedules with so many triggered runs each."""
    names = [f"s{n:05}" for n in range(count)]
    ids = [f"{namespace}-{pool}-{name}" for name in names]
    for at in range(0, count, 500):
        part = [
            spec(name, schedule_id=one, namespace=namespace, pool=pool)
            for name, one in zip(names[at : at + 500], ids[at : at + 500], strict=True)
        ]
        assert book.apply(*part, pools=(ops.PoolSpec(pool, 64),)).kind == "done"
    triggers = [ops.Trigger(book.operation(), namespace, name) for name in names for _ in range(line)]
    for at in range(0, len(triggers), 500):
        book.send(*triggers[at : at + 500])


def seen(book: Book, served: waiting.Served, looks: int) -> list[list[Claimable]]:
    found, walk = [], Walk()
    for _ in range(looks):
        one, walk = claimable(book.db, served, book.now_ms, walk)
        found.append(list(one))
    return found


def test_a_schedule_offers_one_run_however_long_its_line() -> None:
    book = owned_book(spec())
    many(book, 3, line=40)
    (look,) = seen(book, {"default": None}, 1)
    offered = [book.run(one.run_id) for one in look]
    assert sorted(run.schedule for run in offered) == ["s00000", "s00001", "s00002"]
    assert all(run.holds_slot for run in offered)
    assert {(one.namespace, one.pool, one.attempt) for one in look} == {("demo", "default", 1)}


def test_what_runs_beside_slots_is_offered_run_by_run_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MAX_SCHEDULES", 5)
    book = owned_book(spec(overlap="allow", max_concurrent=8))
    book.now_ms = 8_000
    made = book.materialise(*range(1_000, 9_000, 1_000)).detail["runs"]
    first, second = seen(book, {"default": None}, 2)
    assert [one.run_id for one in first] == [one.run_id for one in second] == made[:5], "those due longest first"
    for run_id in made[:5]:
        book.claim(run_id)
    assert [[one.run_id for one in look] for look in seen(book, {"default": None}, 1)] == [made[5:]]


def test_what_nobody_serves_is_not_looked_at() -> None:
    book = owned_book(spec())
    many(book, 4, namespace="a", pool="gpu")
    many(book, 2, namespace="b")
    many(book, 1, namespace="c")
    (look,) = seen(book, {"default": frozenset({"b", "x"})}, 1)
    assert [one.namespace for one in look] == ["b", "b"]
    assert seen(book, {}, 1) == [[]]


def test_looks_that_follow_each_other_see_every_schedule_and_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "MAX_SCHEDULES", 20)
    book = owned_book(spec())
    many(book, 25)
    first, second, third = seen(book, {"default": None}, 3)
    assert (len(first), len(second)) == (20, 5)
    assert {one.run_id for one in first}.isdisjoint(one.run_id for one in second)
    assert [one.run_id for one in third] == [one.run_id for one in first]


def test_more_namespaces_than_one_look_takes_are_seen_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MAX_PLACES", 6)
    book = owned_book(spec())
    for n in range(8):
        many(book, 1, namespace=f"n{n:04}")
    looks = seen(book, {"default": None}, 3)
    assert [len(look) for look in looks] == [6, 6, 6]
    assert len({one.namespace for look in looks[:2] for one in look}) == 8
    assert looks[2][0].namespace == "n0004", "round and round"


def test_a_run_that_is_not_due_closed_or_held_is_not_offered() -> None:
    book = owned_book(spec())
    book.now_ms = 1_000
    run_id = book.materialise(1_000).detail["runs"][0]
    assert book.claimable() == [run_id]
    book.now_ms = 2 * HOUR_MS
    assert book.claimable() == [], "its window is over"
    book.now_ms = 1_000
    book.db.execute("UPDATE runs SET not_before_ms = 1010")
    assert book.claimable() == []
    book.now_ms = 1_010
    assert book.claimable() == [run_id]


def test_every_step_of_a_look_is_a_seek() -> None:
    book = owned_book(spec())
    values = {"pool": "p", "namespace": "n", "after": "", "limit": 5, "now_ms": 0}
    beside = [row[3] for row in book.db.execute(f"EXPLAIN QUERY PLAN {waiting._ASIDE}", values)]
    assert [step for step in beside if step.startswith("SCAN") or "TEMP B-TREE" in step] == []
    assert "runs_beside" in beside[0], "in order, and no further than the limit"
    plan = [row[3] for row in book.db.execute(f"EXPLAIN QUERY PLAN {waiting._HEADS}", values)]
    assert sum("(schedule_id=? AND beside=? AND apart=?)" in step for step in plan) == 2, "the line is not walked"
    for statement, given in ((waiting._NEXT_NAMESPACE, ("p", "n")), (waiting._IS_THERE, ("p", "n"))):
        plan += [row[3] for row in book.db.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
    scans = [step for step in plan if step.startswith("SCAN") and step != "SCAN heads"]
    assert scans == []
    assert sum("runs_waiting" in step for step in plan) == 4
