"""Whatever a command holds, apply answers it, the same on every voter, and the invariants stand."""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.checkpoint import ops, queries, results, uncertain
from runner.checkpoint.admitting import binding_of
from runner.checkpoint.attempt import holds_capacity
from runner.checkpoint.carrying import case_of
from runner.checkpoint.records import RunState
from runner.checkpoint.run import TERMINAL, conclude
from runner.ids import LATEST_INSTANT_MS
from tests.unit.checkpoint.book import SCHEDULE, Book, owned_book, spec
from worker.protocol import CommandTarget

INTS = st.one_of(st.integers(-2, 6), st.integers(0, 9).map(lambda n: n * 1_000), st.integers(-(1 << 63), (1 << 64) - 1))
COUNTS = st.one_of(st.integers(0, 3), st.integers(0, (1 << 64) - 1))
TEXTS = st.one_of(st.sampled_from(["", "w1", "a", "default", "x"]), st.text(max_size=8))
MAYBE = st.none() | TEXTS
REASONS = ["missed_window", "excluded", "dst_gap"]
NAMES = st.sampled_from(["tick", "other", "nobody", "Bad Name"])
WORKERS = st.sampled_from(["w1", "w2"])
LIVES = st.sampled_from(["a", "b"])
TARGETS = st.builds(CommandTarget, argv=st.tuples(TEXTS), env=st.dictionaries(TEXTS, TEXTS, max_size=2))
POOLS = st.builds(ops.PoolSpec, name=st.sampled_from(["default", "gpu", "-"]), limit=COUNTS)
TRIGGERS = (
    st.builds(ops.Every, interval_s=st.integers(1, 1 << 63))
    | st.builds(ops.Cron, expression=TEXTS)
    | st.builds(ops.At, st.tuples(st.integers(0, 10_000_000) | st.integers(0, LATEST_INSTANT_MS)))
)
SPECS = st.builds(
    spec,
    name=NAMES,
    pool=st.sampled_from(["default", "gpu"]),
    retry=st.builds(ops.Retry, attempts=st.integers(1, 3)),
    target=TARGETS,
    trigger=TRIGGERS | st.builds(ops.AnyOf, st.tuples(TRIGGERS, TRIGGERS)),
    overlap=st.sampled_from(["skip", "queue_one", "queue_all", "cancel_previous", "allow"]),
    max_concurrent=st.sampled_from([None, 1, 2, 1 << 63]),
    queue_limit=st.sampled_from([1, 2, 1 << 63]),
    max_runs=st.sampled_from([None, 1, 3]),
    jitter_ms=st.sampled_from([0, 500, 1 << 63]),
    catch_up=st.builds(
        ops.CatchUp,
        window_s=st.sampled_from([1, 3_600, 1 << 62]),
        policy=st.sampled_from(["latest", "all", "none"]),
        limit=st.sampled_from([1, 1 << 63]),
    ),
    on_unknown=st.sampled_from(["hold", "retry"]),
    delivery_deadline_s=st.sampled_from([None, 60, 86_400]),
)
OPERATIONS = st.builds(
    ops.Operation,
    principal=st.sampled_from(["alice", "rita"]),
    key=st.one_of(st.integers(0, 10_000).map(str), st.text(max_size=70)),
    digest=st.sampled_from(["d", "e"]),
)


def about(db: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Draw one of the attempts there are (or may come), or none that ever was."""
    runs = [row[0] for row in db.execute("SELECT run_id FROM runs ORDER BY run_id DESC LIMIT 6")]
    # Mostly what exists: a walk that only ever misses tests little.
    return st.fixed_dictionaries(
        {
            "run_id": st.sampled_from([*runs, *runs, "nobody"]),
            "attempt": st.one_of(st.integers(1, 2), st.integers(1, 2), INTS),
        }
    )


def report(kind: type[ops.Op], draw: Any, db: Any, **said: st.SearchStrategy[Any]) -> ops.Op:
    where = draw(about(db))
    worker = draw(WORKERS)
    who = {"worker": worker, "incarnation": draw(LIVES), "ledger": f"{worker}-disk"}
    return kind(**where, **who, **{name: draw(strategy) for name, strategy in said.items()})


def any_op(draw: Any, book: Book) -> ops.Op:
    makers = (
        _plan,
        _plan,
        _claim,
        _claim,
        _admit,
        _admit,
        _finish,
        _stopped,
        _lose,
        _lose,
        _cancel,
        _attest,
        _recover,
        _other,
    )
    op: ops.Op = draw(st.sampled_from(makers))(draw, book)
    return op


def _claim(draw: Any, book: Book) -> ops.Op:
    return report(ops.ClaimOp, draw, book.db, authorities=st.just(("default", "gpu")))


def _finish(draw: Any, book: Book) -> ops.Op:
    said = {"succeeded": st.booleans(), "reason": MAYBE, "exit_code": st.none() | INTS, "ended_ms": INTS}
    return report(ops.FinishOp, draw, book.db, **said, tail=TEXTS, evidence=TEXTS)


def _stopped(draw: Any, book: Book) -> ops.Op:
    said = {"consumed": st.booleans(), "exit_code": st.none() | INTS, "ended_ms": INTS}
    return report(ops.ConfirmStoppedOp, draw, book.db, **said, evidence=TEXTS)


def _lose(draw: Any, book: Book) -> ops.Op:
    return ops.LoseOp(
        **draw(about(book.db)), why=draw(TEXTS), worker=draw(MAYBE), ledger=draw(MAYBE), evidence=draw(TEXTS)
    )


def _cancel(draw: Any, book: Book) -> ops.Op:
    return ops.CancelOp(operation=draw(OPERATIONS), run_id=draw(about(book.db))["run_id"])


def _plan(draw: Any, book: Book) -> ops.Op:
    schedule = queries.schedule_named(book.db, "demo", draw(NAMES))
    if schedule is None or draw(st.integers(0, 5)) == 0:
        missed = st.builds(ops.Missed, first_ms=INTS, last_ms=INTS, count=INTS, reason=st.just("missed_window"))
        lists = draw(st.lists(missed, max_size=2)), draw(st.lists(INTS, max_size=3)), draw(st.lists(INTS, max_size=3))
        ranges, due, starts = (tuple(each) for each in lists)
        return ops.Materialise(SCHEDULE, draw(INTS), draw(INTS), draw(INTS), ranges, due, draw(INTS), starts)
    after_ms = schedule.watermark_ms
    due = tuple(range(after_ms + 1_000, book.now_ms + 1, 1_000))[:4]
    until_ms = due[-1] if due else after_ms
    plan = (schedule.schedule_id, schedule.definition_revision, after_ms, until_ms)
    ranges = tuple(ops.Missed(at_ms, at_ms, 1, draw(st.sampled_from(REASONS))) for at_ms in due[1::3])
    due = tuple(at_ms for at_ms in due if at_ms not in {each.first_ms for each in ranges})
    starts = tuple(at_ms + draw(st.integers(0, 500)) for at_ms in due) if draw(st.booleans()) else ()
    return ops.Materialise(*plan, ranges, due, draw(st.integers(0, len(due))), starts)


def _admit(draw: Any, book: Book) -> ops.Op:
    where = draw(about(book.db))
    run = queries.run(book.db, where["run_id"])
    attempts = queries.attempts(book.db, where["run_id"])
    reservation = draw(st.sampled_from(["x1", "x2"]))
    if run is None or not attempts:
        return report(ops.ForfeitOp, draw, book.db, evidence=TEXTS)
    binding = binding_of(queries.head(book.db), run, attempts[-1])
    return ops.AdmitOp(worker=draw(st.sampled_from([binding.worker, "w2"])), binding=binding, reservation=reservation)


def _attest(draw: Any, book: Book) -> ops.Op:
    where = draw(about(book.db))
    attempts = queries.attempts(book.db, where["run_id"])
    revision = attempts[-1].revision if attempts else draw(INTS)
    words = {"attester": draw(TEXTS), "statement": draw(TEXTS), "evidence": draw(TEXTS)}
    return ops.AttestOp(operation=draw(OPERATIONS), **where, **words, row_revision=revision)


def _recover(draw: Any, book: Book) -> ops.Op:
    """What recovery staff and operators do in an incident, mostly about what there is."""
    where, operation = draw(about(book.db)), draw(OPERATIONS)
    worker, life = draw(WORKERS), draw(LIVES)
    left = uncertain.attestable(book.db, worker, life, 100)
    rows = tuple(ops.AttestedRow(each.run_id, each.n, each.revision) for each in left)
    words = {"attester": draw(TEXTS), "statement": draw(TEXTS), "evidence": draw(TEXTS)}
    made: tuple[ops.Op, ...] = (
        ops.AttestIncarnationOp(operation, worker, life, "Rita", "gone", "ticket 7", rows),
        ops.AttestIncarnationOp(operation, worker, life, **words, attempts=(ops.AttestedRow(**where, row_revision=1),)),
        ops.SetFrozen(operation, frozen=draw(st.integers(0, 3)) == 0),
        ops.Redeliver(operation, where["run_id"], draw(INTS)),
        ops.Restore(operation),
    )
    return draw(st.sampled_from(made))


def _other(draw: Any, book: Book) -> ops.Op:
    where, operation = draw(about(book.db)), draw(OPERATIONS)
    name = {"namespace": "demo", "name": draw(NAMES)}
    made: tuple[ops.Op, ...] = (
        ops.Acquire(owner=draw(TEXTS)),
        ops.Apply(operation, tuple(draw(st.lists(POOLS, max_size=2))), tuple(draw(st.lists(SPECS, max_size=2)))),
        ops.SetEnabled(operation=operation, **name, enabled=draw(st.booleans()), catch_up=draw(st.booleans())),
        ops.Trigger(operation=operation, **name, beside=draw(st.booleans())),
        _backfill(draw, book, operation),
        ops.AcceptClock(operation),
        ops.Delete(operation, **name),
        ops.FenceOp(**where, why=draw(TEXTS), worker=draw(MAYBE)),
        report(ops.AcceptOp, draw, book.db, execution_id=TEXTS, started_ms=INTS, evidence=TEXTS),
        ops.CloseOp(run_id=where["run_id"]),
        ops.ForgetOperations(before_ms=draw(INTS), limit=draw(INTS)),
    )
    return draw(st.sampled_from(made))


def _backfill(draw: Any, book: Book, operation: ops.Operation) -> ops.Op:
    name = draw(NAMES)
    schedule = queries.schedule_named(book.db, "demo", name)
    revision = INTS if schedule is None else st.just(schedule.definition_revision) | INTS
    return ops.Backfill(operation, "demo", name, draw(revision), tuple(draw(st.lists(INTS, max_size=3))))


def allow(allowed: Counter[str], op: ops.Op) -> None:
    """Remember the most runs of each schedule that any definition sent so far lets go on at once."""
    for each in op.schedules if isinstance(op, ops.Apply) else ():
        limit = (each.max_concurrent or 10) if each.overlap == "allow" else 1
        allowed[each.name] = max(allowed[each.name], limit)


def check(book: Book, allowed: Counter[str]) -> None:
    schedules = {each.schedule_id: each for each in queries.schedules_after(book.db, "", 100)}
    restored = queries.head(book.db).restored_ms is not None
    going_on: Counter[str] = Counter()
    for run in queries.runs(book.db, schedule_id=None, state=None, limit=1_000):
        if not hasattr(run, "run_id"):
            continue
        attempts = queries.attempts(book.db, run.run_id)
        standing = conclude(case_of(run, attempts))
        assert (standing.state, standing.reason) == (run.state, run.reason)
        assert (run.ended_ms is not None) == (run.state in TERMINAL)
        assert all(a.token is None or not a.fenced for a in attempts)
        assert sum(holds_capacity(a) for a in attempts) <= 1
        assert run.holds_slot <= (run.state not in TERMINAL)
        assert run.apart <= run.beside <= (not run.holds_slot)
        if run.beside:
            going_on[run.schedule] += run.state not in TERMINAL and not run.apart
            continue  # nothing of the slot and its line is about it
        if run.state is not RunState.PENDING and run.state not in TERMINAL:
            # A restore makes runs that waited in line uncertain: the slot goes to them before anything is launched.
            assert run.holds_slot or restored, "7: launched without the slot"
            holder = schedules[run.schedule_id].slot_run_id
            assert holder is not None, "7: uncertain, and the slot is free"
            going_on[run.schedule] += run.holds_slot
        if run.state is RunState.PENDING:
            assert schedules[run.schedule_id].slot_run_id is not None, "11: in line, and nobody in front"
    assert all(restored or count <= allowed[name] for name, count in going_on.items()), "7: too many side by side"
    tokens = [row[0] for row in book.db.execute("SELECT token FROM attempts WHERE token IS NOT NULL ORDER BY token")]
    assert len(tokens) == len(set(tokens)) == queries.head(book.db).token_counter
    planned = (
        "SELECT schedule_id, scheduled_for_ms, COUNT(*) FROM runs WHERE scheduled_for_ms IS NOT NULL GROUP BY 1, 2"
    )
    assert all(row[2] == 1 for row in book.db.execute(planned))


# How slow a shared machine is says nothing of the checkpoint.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_apply_is_total_deterministic_and_keeps_the_invariants(data: st.DataObject) -> None:
    specs = (spec(retry=ops.Retry(attempts=2), jitter_ms=500), spec("other", overlap="allow", max_concurrent=2))
    first, second = owned_book(*specs), owned_book(*specs)
    allowed = Counter({"tick": 1, "other": 2})
    for _ in range(data.draw(st.integers(1, 12))):
        first.now_ms += data.draw(st.sampled_from([0, 500, 1_000, 3_000, 3_600_000]))
        sent = tuple(any_op(data.draw, first) for _ in range(data.draw(st.integers(1, 3))))
        for op in sent:
            allow(allowed, op)
        head = queries.head(first.db)
        command = ops.encode(ops.Command(ops.VERSION, head.epoch, head.revision, first.now_ms, "node1", sent))
        answered = first.machine.apply(first.db, command)
        assert second.machine.apply(second.db, command) == answered
        result = results.from_builtins(answered)
        assert (result.verdict, len(result.results)) == ("applied", len(sent))
        check(first, allowed)
    assert list(first.db.iterdump()) == list(second.db.iterdump())
    first.db.close()
    second.db.close()
