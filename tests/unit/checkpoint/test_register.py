"""The compare-and-set, ownership, schedules and operation keys."""

import msgspec
import pytest

from cluster.outcome import FailStop
from runner.checkpoint import ops, queries
from runner.checkpoint.operations import KEPT_MS
from runner.checkpoint.records import RunState, Schedule, SkipRange
from tests.unit.checkpoint.book import HOUR_MS, OTHER_SCHEDULE, SCHEDULE, Book, owned_book, spec
from worker.protocol import CommandTarget


def dump(book: Book) -> list[str]:
    return list(book.db.iterdump())


def tick(book: Book) -> Schedule:
    found = queries.schedule_named(book.db, "demo", "tick")
    assert found is not None
    return found


def test_a_stale_epoch_or_another_revision_changes_nothing() -> None:
    book = owned_book()
    book.acquire("node2")
    before = dump(book)
    for epoch, revision, verdict in ((1, None, "stale"), (2, 1, "conflict"), (1, 1, "stale"), (3, None, "stale")):
        result = book.send(ops.CloseOp(run_id="x"), ops.Acquire(owner="node3"), epoch=epoch, revision=revision)
        assert (result.verdict, result.epoch, result.revision, result.results) == (verdict, 2, 3, ())
    assert dump(book) == before


def test_the_revision_grows_by_one_per_command_and_an_op_sees_those_before_it() -> None:
    book = owned_book()
    book.now_ms = 1_000
    plan = ops.Materialise(SCHEDULE, tick(book).definition_revision, 0, 1_000, (), (1_000,))
    result = book.send(plan, plan, ops.CancelOp(operation=book.operation(), run_id="nobody"))
    assert [each.kind for each in result.results] == ["done", "refused", "refused"]
    assert (result.revision, queries.head(book.db).revision) == (3, 3)


def test_now_never_goes_back() -> None:
    book = owned_book()
    for now_ms, clamped in ((500, 500), (100, 500), (-9, 500), (501, 501)):
        book.now_ms = now_ms
        assert book.send().now_ms == clamped
    book.now_ms = 1 << 62
    result = book.send()
    assert queries.head(book.db).now_ms == result.now_ms < 253_402_300_800_000


def test_nothing_is_done_before_somebody_owns() -> None:
    book = Book()
    assert book.apply(spec()).reason == "no_owner"
    book.acquire()
    assert (queries.head(book.db).owner, queries.head(book.db).epoch) == ("node1", 1)
    assert book.apply(spec()).kind == "done"


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\xc1", msgspec.msgpack.encode({"version": 1})])
def test_bytes_that_are_no_command_stop_the_process(raw: bytes) -> None:
    book = owned_book()
    with pytest.raises(FailStop):
        book.machine.apply(book.db, raw)


def test_another_version_and_an_unknown_op_stop_the_process() -> None:
    book = owned_book()
    command = ops.Command(version=2, expect_epoch=1, expect_revision=2, now_ms=0, actor="node1", ops=())
    with pytest.raises(FailStop, match="version 2"):
        book.machine.apply(book.db, ops.encode(command))
    known = msgspec.to_builtins(msgspec.structs.replace(command, version=1))
    with pytest.raises(FailStop, match="cannot be read"):
        book.machine.apply(book.db, msgspec.msgpack.encode({**known, "ops": [{"type": "from_the_future"}]}))


def test_apply_is_all_or_nothing() -> None:
    book = owned_book()
    before = queries.schedules(book.db), queries.pools(book.db)
    pools = (ops.PoolSpec(name="gpu", limit=2),)
    for bad, reason in (
        (spec("other", pool="gpux"), "unknown_pool"),
        (spec("Other"), "bad_name"),
        (spec("fresh"), "named_twice"),
        (spec("other", schedule_id=SCHEDULE), "schedule_id_taken"),
        (spec("other", target=CommandTarget(argv=("x" * 70_000,))), "target_too_large"),
    ):
        result = book.apply(spec("fresh", pool="gpu"), bad, pools=pools)
        assert (result.kind, result.reason) == ("refused", reason)
    assert book.apply(pools=(*pools, *pools)).reason == "named_twice"
    assert book.apply(pools=(ops.PoolSpec(name="-", limit=1),)).reason == "bad_name"
    assert (queries.schedules(book.db), queries.pools(book.db)) == before


def test_apply_creates_changes_and_leaves_alone() -> None:
    book = owned_book()
    book.now_ms = 1_500
    pool = ops.PoolSpec(name="gpu", limit=2)
    result = book.apply(spec(), spec("other", pool="gpu"), pools=(pool,))
    assert [each["outcome"] for each in result.detail["schedules"]] == ["unchanged", "created"]
    assert result.detail["pools"] == ["gpu"]
    assert result.changed == ("pool:gpu", f"schedule:{OTHER_SCHEDULE}")
    assert book.apply(pools=(pool,)).changed == ()
    assert [(each.name, each.limit) for each in queries.pools(book.db)] == [("default", 64), ("gpu", 2)]
    again = book.apply(spec(schedule_id="0190a0a0-9999-7000-8000-000000000000"))
    assert [each["outcome"] for each in again.detail["schedules"]] == ["unchanged"], "an id is only for a new name"


def test_an_edit_moves_the_watermark_and_keeps_the_anchor_of_an_unchanged_interval() -> None:
    book = owned_book()
    book.now_ms = 1_500
    book.apply(spec(retry=ops.Retry(attempts=2)))
    assert (tick(book).watermark_ms, tick(book).anchor_ms) == (1_500, 0)
    assert tick(book).definition_revision == tick(book).revision == 3
    book.now_ms = 2_001
    book.apply(spec(trigger=ops.Every(interval_s=2)))
    assert (tick(book).watermark_ms, tick(book).anchor_ms) == (2_001, 3_000)
    book.now_ms = 4_000
    book.apply(spec(trigger=ops.Cron(expression="* * * * *")))
    assert tick(book).anchor_ms == 4_000
    before = tick(book)
    book.now_ms = 5_000
    book.apply(spec(trigger=ops.Cron(expression="* * * * *")))
    assert tick(book) == before


def test_an_edit_touches_neither_slot_nor_switch() -> None:
    book = owned_book()
    run_id = book.a_run()
    book.do(ops.SetEnabled(operation=book.operation(), namespace="demo", name="tick", enabled=False))
    book.apply(spec(retry=ops.Retry(attempts=3)))
    assert (tick(book).enabled, tick(book).slot_run_id) == (False, run_id)


def test_enable_and_disable() -> None:
    book = owned_book()
    book.a_run()
    operation = book.operation("k")
    off = ops.SetEnabled(operation=operation, namespace="demo", name="tick", enabled=False)
    done = book.do(off)
    assert done.detail == {"schedule_id": SCHEDULE, "enabled": False, "open_runs": 1, "unchanged": False}
    book.now_ms = 9_000
    assert book.do(off).detail == done.detail
    on = msgspec.structs.replace(off, operation=book.operation(), enabled=True)
    book.do(on)
    assert (tick(book).enabled, tick(book).watermark_ms) == (True, 9_000)
    assert book.do(msgspec.structs.replace(on, operation=book.operation())).detail["unchanged"] is True
    nobody = msgspec.structs.replace(on, operation=book.operation(), name="nobody")
    assert book.do(nobody).reason == "no_such_schedule"


def test_an_operation_key_stands_for_one_change_and_its_answer() -> None:
    book = owned_book()
    first = ops.Trigger(operation=book.operation("k"), namespace="demo", name="tick")
    done = book.do(first)
    book.acquire("node2")
    repeat = book.do(first)
    assert (repeat.detail, repeat.again, repeat.changed) == (done.detail, True, ())
    other = msgspec.structs.replace(first, operation=book.operation("k", digest="other"))
    assert book.do(other).reason == "key_reused"
    assert book.do(first).again
    assert queries.kept_operation(book.db, "alice", "k") == ("d", msgspec.structs.replace(done, changed=()))
    assert queries.kept_operation(book.db, "bob", "k") is None
    assert queries.counts(book.db)["Pending"] == 1


def test_a_refusal_is_kept_too() -> None:
    book = owned_book()
    cancel = ops.CancelOp(operation=book.operation("k"), run_id="nobody")
    assert book.do(cancel).reason == "no_such_run"
    again = book.do(cancel)
    assert (again.reason, again.again) == ("no_such_run", True)


def key_at(ms: int) -> str:
    stamp = f"{ms:012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7000-8000-000000000001"


def test_a_kept_result_is_forgotten_only_when_its_key_is_refused() -> None:
    book = owned_book()
    book.now_ms = 10 * KEPT_MS
    ahead_ms = book.now_ms + HOUR_MS  # the client's clock runs an hour ahead
    for key in (key_at(book.now_ms), key_at(ahead_ms), "short"):
        assert book.do(ops.CancelOp(operation=book.operation(key), run_id="x")).reason == "no_such_run"
    forget = ops.ForgetOperations(before_ms=1 << 40, limit=10)
    book.now_ms += KEPT_MS
    book.do(forget)
    assert queries.kept_operation(book.db, "alice", key_at(book.now_ms - KEPT_MS)) is not None
    book.now_ms += 1
    assert book.do(forget).detail == {"forgotten": 2}
    late = ops.CancelOp(operation=book.operation(key_at(10 * KEPT_MS)), run_id="x")
    assert book.do(late).reason == "key_too_old"
    assert queries.kept_operation(book.db, "alice", key_at(ahead_ms)) is not None
    book.now_ms = ahead_ms + KEPT_MS + 1
    assert book.do(msgspec.structs.replace(forget, limit=-1)).detail == {"forgotten": 0}
    assert book.do(forget).detail == {"forgotten": 1}
    assert book.do(ops.CancelOp(operation=book.operation("k" * 65), run_id="x")).reason == "bad_key"


def test_integers_beyond_what_a_table_holds_are_refused() -> None:
    book = owned_book()
    run_id = book.admitted()
    before = dump(book)
    huge = (1 << 64) - 1
    assert book.do(ops.FenceOp(run_id=run_id, attempt=huge, why="x")).reason == "out_of_range"
    assert book.finish(run_id, ended_ms=huge).reason == "out_of_range"
    assert book.materialise(huge, until_ms=huge).reason == "out_of_range"
    binding = msgspec.structs.replace(book.binding(run_id), attempt=(1 << 53) - 1)  # the most that a message may say
    assert book.do(ops.AdmitOp(worker="w1", binding=binding, reservation="x")).reason == "out_of_range"
    assert [line for line in dump(book) if "INTO head" not in line.replace('"', "")] == [
        line for line in before if "INTO head" not in line.replace('"', "")
    ]


def test_runs_are_listed_newest_first_with_skipped_ranges_among_them() -> None:
    book = owned_book()
    first = book.admitted(1_000)
    book.now_ms = 3_000
    book.materialise(2_000, 3_000)
    book.finish(first)
    second = book.a_run(4_000)
    found = queries.runs(book.db, schedule_id=SCHEDULE, state=None, limit=50)
    assert [each if isinstance(each, SkipRange) else each.run_id for each in found] == [second, found[1], first]
    assert isinstance(found[1], SkipRange)
    assert queries.runs(book.db, schedule_id=None, state=None, limit=1) == found[:1]
    assert queries.runs(book.db, schedule_id="nobody", state=None, limit=9) == []
    pending = queries.runs(book.db, schedule_id=None, state=RunState.PENDING, limit=9)
    assert pending == found[:1]
    assert queries.counts(book.db) == {
        **{state.value: 0 for state in RunState},
        "Pending": 1,
        "Succeeded": 1,
        "Skipped": 2,
    }


def test_every_transition_leaves_an_event() -> None:
    book = owned_book()
    run_id = book.admitted()
    book.lose(run_id)
    book.cancel(run_id)
    trail = [(e.op, e.attempt, e.from_state, e.to_state) for e in queries.events(book.db, run_id=run_id, limit=50)]
    assert trail[::-1] == [
        ("materialise", None, None, "Pending"),
        ("claim", 1, None, "Claimed"),
        ("claim", None, "Pending", "Active"),
        ("admit", 1, "Claimed", "Admitted"),
        ("lose", 1, "Admitted", "Unknown"),
        ("lose", None, "Active", "Unknown"),
        ("cancel", 1, "Unknown", "Cancelling unresolved"),
        ("cancel", None, "Unknown", "Cancelling"),
    ]
