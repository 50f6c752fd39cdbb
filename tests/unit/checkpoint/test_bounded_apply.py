"""What one apply may cost every voter: capped, and counted in statements, never timed."""

from collections import Counter

from runner.checkpoint import ops, queries
from runner.checkpoint.limits import MAX_POOLS, MAX_SCHEDULES
from tests.unit.checkpoint.book import Book, owned_book, spec
from worker.protocol import CommandTarget


def many(count: int, every_s: int = 60) -> tuple[ops.ScheduleSpec, ...]:
    return tuple(spec(f"s{n}", schedule_id=f"id{n}", trigger=ops.Every(every_s)) for n in range(count))


def pools(count: int, limit: int = 1) -> tuple[ops.PoolSpec, ...]:
    return tuple(ops.PoolSpec(f"p{n}", limit) for n in range(count))


def traced(book: Book, *schedules: ops.ScheduleSpec, of: tuple[ops.PoolSpec, ...] = ()) -> Counter[str]:
    """Apply, and count the statements by their first words."""
    ran: list[str] = []
    book.db.set_trace_callback(ran.append)
    result = book.apply(*schedules, pools=of)
    book.db.set_trace_callback(None)
    assert result.kind == "done", result
    return Counter(" ".join(statement.split()[:3]) for statement in ran)


def test_each_schedule_costs_a_fixed_number_of_statements() -> None:
    book = Book()
    book.acquire()
    rounds = {
        "created": (many(20), 5),  # its row, its id, and three writes: schedule, target, event
        "unchanged": (many(20), 1),
        "changed": (many(20, every_s=61), 3),
    }
    for outcome, (schedules, per_schedule) in rounds.items():
        found = traced(book, *schedules)
        assert found.total() - 20 * per_schedule <= 6, (outcome, found)


def test_each_pool_costs_one_statement_at_most() -> None:
    book = owned_book()
    assert traced(book, of=pools(50)).total() <= 50 + 6
    assert traced(book, of=pools(50)).total() <= 6, "nothing changed, nothing is written"


def test_more_pools_or_schedules_than_one_apply_may_name_are_refused_whole() -> None:
    book = owned_book()
    for result in (book.apply(pools=pools(MAX_POOLS + 1)), book.apply(*many(MAX_SCHEDULES + 1))):
        assert (result.kind, result.reason, result.changed) == ("refused", "too_many", ())
    assert [pool.name for pool in queries.pools(book.db)] == ["default"]
    assert len(queries.schedules(book.db)) == 1
    assert book.apply(pools=pools(MAX_POOLS)).kind == "done"
    assert book.apply(*many(MAX_SCHEDULES)).kind == "done"


def test_a_pool_named_twice_is_refused_and_rows_are_named_once() -> None:
    book = owned_book()
    twice = book.apply(pools=(ops.PoolSpec("p", 1), ops.PoolSpec("p", 2)))
    assert (twice.reason, twice.detail) == ("named_twice", {"pool": "p"})
    assert book.apply(pools=pools(3)).changed == ("pool:p0", "pool:p1", "pool:p2")


def test_an_edit_keeps_slot_state_and_position_and_freezes_a_new_target() -> None:
    book = owned_book()
    run_id = book.a_run()
    assert book.do(ops.SetEnabled(book.operation(), "demo", "tick", enabled=False)).kind == "done"
    other = CommandTarget(argv=("false",))
    assert book.apply(spec(target=other)).detail["schedules"][0]["outcome"] == "changed"
    row = queries.schedule_named(book.db, "demo", "tick")
    assert row is not None
    assert (row.slot_run_id, row.enabled, row.spec.target) == (run_id, False, other)
    digests = [digest for (digest,) in book.db.execute("SELECT digest FROM schedules")]
    assert queries.target(book.db, digests[0]) == other
    assert queries.target(book.db, book.run(run_id).digest).argv == ("true",), "what a run froze stays"
