"""The product's own checkpoint, walked: every operation is applied by `runner.checkpoint.machine`, once per state.

A state is the rows of its tables in canonical form. Revisions, words and instants that lead nowhere are left out; an
instant that closes a run is either far ahead or past, and every pause is over. The results are remembered, so a walk
pays for each pair of rows and operation once, however many states of the world share it.
"""

import sqlite3
from dataclasses import dataclass, field
from itertools import starmap

from runner.admission.listing import Listing, listing_of
from runner.checkpoint import carrying, ops, queries, results, waiting
from runner.checkpoint import run as runs_of
from runner.checkpoint.attempt import TERMINAL as ATTEMPT_TERMINAL
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.records import Attempt, AttemptState, Head, Run, RunState, SkipRange
from runner.checkpoint.results import OpResult
from runner.checkpoint.run import TERMINAL
from tests.search.bounds import Bounds
from tests.search.canonical import NOW_MS, PAST_MS, kept, rules_of
from tests.search.state import Interned
from worker.protocol import CommandTarget

CLUSTER = "7a6e2f3c-0000-4000-8000-000000000001"
SCHEDULE = "0190a0a0-0000-7000-8000-00000000000a"
INTERVAL_MS = 60_000
TABLES = {
    "head": "id",
    "schedules": "schedule_id",
    "runs": "run_id",
    "attempts": "run_id, n",
    "skips": "first_ms",
    "retired": "worker, incarnation",
}
TOO_LARGE = "beyond the bounds"
REPORTS = (ops.AcceptOp, ops.FinishOp, ops.ConfirmStoppedOp, ops.ForfeitOp, ops.LoseOp)
FORGOTTEN = ("events", "operations")
Rows = tuple[tuple[tuple[object, ...], ...], ...]


@dataclass(frozen=True)
class Change:
    """What an operation did; `wrong` if it moved what must never move, or if the walk does not follow it."""

    book: int
    result: OpResult
    wrong: str = ""


@dataclass(frozen=True)
class Look:
    """One state of the checkpoint, read with the product's own queries."""

    head: Head
    slot: str | None
    definition_revision: int
    watermark_ms: int
    runs: dict[str, Run]
    attempts: dict[str, list[Attempt]]
    skips: list[SkipRange]
    held: int
    claimable: list[str]
    open: list[Attempt]
    closing: list[str]
    retired: frozenset[tuple[str, str]]


@dataclass
class Book:
    """The checkpoint of one walk."""

    bounds: Bounds
    states: Interned = field(default_factory=Interned)
    numbered: Interned = field(default_factory=Interned)

    def __post_init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._machine = Checkpoint(CLUSTER)
        self._machine.create(self._db)
        self._loaded = 0
        self._changes: dict[tuple[int, int], Change] = {}
        self._late: dict[tuple[int, int], bool] = {}
        self._looks: dict[int, Look] = {}
        self._listings: dict[tuple[int, str, str], Listing] = {}
        self._columns = {table: self._columns_of(table) for table in TABLES}
        self._rules = {table: rules_of(names) for table, names in self._columns.items()}
        self._send(ops.Acquire(owner="n1"), epoch=0, now_ms=0)
        pool = ops.PoolSpec(name="default", limit=self.bounds.capacity)
        applied = self._send(ops.Apply(operation=OPERATOR, pools=(pool,), schedules=(_spec(self.bounds),)), now_ms=0)
        assert applied.kind == "done", applied
        self.start = self.states.number(self._canonical())
        for table in (*TABLES, *FORGOTTEN):
            self._db.execute(f"DELETE FROM {table}")

    def apply(self, book: int, op: int) -> Change:
        """Apply one operation, by its number, as a command of its own under the present epoch."""
        found = self._changes.get((book, op))
        if found is None:
            found = self._changes[book, op] = self._apply(book, op, self.look(book).head.epoch)
        return found

    def changes_although_late(self, book: int, op: int) -> bool:
        """Return whether a command of the epoch before the present one changes anything."""
        found = self._late.get((book, op))
        if found is None:
            late = self._apply(book, op, self.look(book).head.epoch - 1)
            found = self._late[book, op] = late.book != book
        return found

    def look(self, book: int) -> Look:
        """Return what the checkpoint says."""
        found = self._looks.get(book)
        if found is None:
            found = self._looks[book] = self._look(book)
        return found

    def listing(self, book: int, worker: str, incarnation: str) -> Listing:
        """Return what a poll of this incarnation is told."""
        key = (book, worker, incarnation)
        found = self._listings.get(key)
        if found is None:
            self._load(book)
            found = self._listings[key] = listing_of(self._db, worker, incarnation)
        return found

    def past_closing(self, book: int, run_id: str) -> int:
        """Return the state once a run's closing instant in force has passed, before anybody acts on it."""
        look = self.look(book)
        case = carrying.case_of(look.runs[run_id], look.attempts[run_id])
        passes = "closes_ms" if case.closes_ms > NOW_MS else "deadline_ms"
        self._load(book)
        self._db.execute("SAVEPOINT before")
        self._db.execute(f"UPDATE runs SET {passes} = {PAST_MS} WHERE run_id = ?", (run_id,))
        moved = carrying.case_of(queries.run(self._db, run_id), look.attempts[run_id])
        if queries.run(self._db, run_id).state is RunState.PENDING:
            self._db.execute("UPDATE runs SET closing_ms = ? WHERE run_id = ?", (runs_of.closing_ms(moved), run_id))
        return self._back()

    def closing_ms(self, book: int, run_id: str) -> int | None:
        """Return a run's closing instant."""
        look = self.look(book)
        return runs_of.closing_ms(carrying.case_of(look.runs[run_id], look.attempts[run_id]))

    def _apply(self, book: int, number: int, epoch: int) -> Change:
        op: ops.Op = self.numbered[number]
        self._load(book)
        self._db.execute("SAVEPOINT before")
        result = self._send(op, epoch=epoch)
        after = self._back()
        if after == book:
            return Change(after, result)
        found = self.look(after)
        too_large = any(len(attempts) > self.bounds.attempts for attempts in found.attempts.values())
        return Change(after, result, TOO_LARGE if too_large else _moved_what_must_stay(self.look(book), found, op))

    def _back(self) -> int:
        rows = self._canonical()
        self._db.execute("ROLLBACK TO before")
        self._db.execute("RELEASE before")
        return self.states.number(rows)

    def _send(self, op: ops.Op, epoch: int = 1, now_ms: int = NOW_MS) -> OpResult:
        command = ops.Command(
            version=ops.VERSION,
            expect_epoch=epoch,
            expect_revision=queries.head(self._db).revision,
            now_ms=now_ms,
            actor="n1",
            ops=(op,),
        )
        answer = results.from_builtins(self._machine.apply(self._db, ops.encode(command)))
        return answer.results[0] if answer.verdict == "applied" else OpResult("refused", answer.verdict)

    def _columns_of(self, table: str) -> list[str]:
        return [row[1] for row in self._db.execute(f"PRAGMA table_info({table})")]

    def _canonical(self) -> Rows:
        return tuple(
            tuple(kept(row, self._rules[table]) for row in self._db.execute(f"SELECT * FROM {table} ORDER BY {order}"))
            for table, order in TABLES.items()
        )

    def _load(self, book: int) -> None:
        """Put a state's rows into the tables, those tables aside that hold them already."""
        if self._loaded == book:
            return
        have, want = self.states[self._loaded] or ((),) * len(TABLES), self.states[book]
        for table, old, new in zip(TABLES, have, want, strict=True):
            if old != new:
                self._db.execute(f"DELETE FROM {table}")
                if new:
                    self._db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(new[0]))})", new)
        self._loaded = book

    def _look(self, book: int) -> Look:
        self._load(book)
        db = self._db
        (schedule,) = queries.schedules(db)
        run_ids = [row[0] for row in db.execute("SELECT run_id FROM runs ORDER BY run_id")]
        skips = "SELECT schedule_id, namespace, schedule, first_ms, last_ms, count, reason, revision FROM skips"
        return Look(
            head=queries.head(db),
            slot=schedule.slot_run_id,
            definition_revision=schedule.definition_revision,
            watermark_ms=schedule.watermark_ms,
            runs={run_id: queries.run(db, run_id) for run_id in run_ids},
            attempts={run_id: queries.attempts(db, run_id) for run_id in run_ids},
            skips=list(starmap(SkipRange, db.execute(f"{skips} ORDER BY first_ms"))),
            held=queries.pool(db, "default").held,
            claimable=[each.run_id for each in waiting.claimable(db, {"default": None}, NOW_MS, waiting.Walk())[0]],
            open=queries.open_attempts(db),
            closing=queries.closing(db, NOW_MS, 100),
            retired=frozenset(db.execute("SELECT worker, incarnation FROM retired")),
        )


OPERATOR = ops.Operation(principal="olga", key="k", digest="d")
RECOVERY = ops.Operation(principal="rita", key="k", digest="d")


def _spec(bounds: Bounds) -> ops.ScheduleSpec:
    webhook = {"on_unknown": "retry", "delivery_deadline_s": 86_400} if bounds.webhook else {"on_unknown": "hold"}
    return ops.ScheduleSpec(
        namespace="demo",
        name="tick",
        schedule_id=SCHEDULE,
        trigger=ops.Every(interval_s=INTERVAL_MS // 1_000),
        timezone="UTC",
        overlap=bounds.overlap,
        max_concurrent=bounds.concurrent,
        pool="default",
        retry=ops.Retry(attempts=bounds.allowed),
        target=CommandTarget(argv=("true",)),
        **webhook,
    )


def _moved_what_must_stay(before: Look, after: Look, op: ops.Op) -> str:
    """Say what is wrong with a change: a definite state stays what it is, and nothing disappears."""
    instants = [run.scheduled_for_ms for run in after.runs.values()]
    if len(instants) != len(set(instants)):
        return "invariant 5: an instant is on record twice"
    for run_id, run in before.runs.items():
        now = after.runs.get(run_id)
        if now is None:
            return f"a run disappeared: {run_id}"
        reopened = (run.state, now.state) == (RunState.FAILED, RunState.PENDING) and isinstance(op, ops.Redeliver)
        if run.state in TERMINAL and now.state is not run.state and not reopened:
            return f"promise 2: a terminal run moved from {run.state.value} to {now.state.value}"
        for attempt, moved in zip(before.attempts[run_id], after.attempts[run_id], strict=False):
            if _told(moved) != _told(attempt) and (found := _moved_wrongly(attempt, moved, op, before.head)):
                return found
        if len(after.attempts[run_id]) < len(before.attempts[run_id]):
            return "an attempt disappeared"
    return ""


def _told(attempt: Attempt) -> tuple[AttemptState, bool, bool]:
    return attempt.state, attempt.unresolved, attempt.superseded


def _moved_wrongly(attempt: Attempt, moved: Attempt, op: ops.Op, head: Head) -> str:
    way = f"from {attempt.state.value} to {moved.state.value}"
    if attempt.state in ATTEMPT_TERMINAL and moved.state is not attempt.state:
        return f"promise 2: a terminal attempt moved {way}"
    if attempt.superseded and attempt.state is AttemptState.UNKNOWN and isinstance(op, REPORTS):
        return f"rule: a late report moved a superseded attempt {way}"
    if attempt.generation < head.generation and isinstance(op, REPORTS):
        return f"rule: a report of an earlier generation moved an attempt {way}"
    if isinstance(op, ops.LoseOp) and op.worker is not None and op.ledger != attempt.ledger:
        return f"rule: the word of another ledger moved an attempt {way}"
    return ""
