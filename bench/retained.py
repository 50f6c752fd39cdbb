"""What an admission costs with few and with many retained runs: the real checkpoint, two files, taking turns.

No cluster is around it: whatever consensus and disk cost, they cost it for the one as for the other. What could grow
with the retained rows is the state machine's SQL, and what the owner reads in each turn.
"""

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from bench.figures import spread
from bench.table import say, table
from cluster.database import open_writer
from runner.checkpoint import ops, queries
from runner.checkpoint.admitting import binding_of
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.results import OpResult, from_builtins
from runner.checkpoint.waiting import Walk
from runner.contacts import Contact
from runner.view import Wants, read
from worker.protocol import MAX_POLL_S, CommandTarget

CLUSTER: Final = "7a6e2f3c-0000-4000-8000-000000000001"
FEW: Final = 1_000
SCHEDULES: Final = 100
START_MS: Final = 1_767_225_600_000
GAP_MS: Final = 1_000
US: Final = 1e6
WORKER: Final = "w1"
STEPS: Final = ("claim", "admit", "finish", "the owner's reads", "all of it")


@dataclass
class Filled:
    """A checkpoint in a file, driven one command at a time as an owner drives it."""

    db: sqlite3.Connection
    machine: Checkpoint = field(default_factory=lambda: Checkpoint(CLUSTER))
    now_ms: int = START_MS
    keys: "count[int]" = field(default_factory=lambda: count(1))

    def own(self) -> None:
        """Make the tables, and own them."""
        with self.db:
            self.db.execute("BEGIN")
            self.machine.create(self.db)
        self.commit(ops.Acquire("node1"))

    def begin(self) -> None:
        """Own the tables, and apply the schedules; each target differs, as people's do."""
        self.own()
        self.commit(ops.Apply(self.operation(), (), tuple(_spec(n) for n in range(SCHEDULES))))

    def commit(self, op: ops.Op) -> OpResult:
        """Apply one command in a transaction of its own, as the voter does."""
        head = queries.head(self.db)
        command = ops.encode(ops.Command(ops.VERSION, head.epoch, head.revision, self.now_ms, "node1", (op,)))
        self.db.execute("BEGIN")
        result = from_builtins(self.machine.apply(self.db, command))
        self.db.execute("COMMIT")
        assert result.verdict == "applied", result
        return result.results[0]

    def operation(self) -> ops.Operation:
        """Return a fresh operation key."""
        return ops.Operation("bench", f"key-{next(self.keys)}", "d")

    def look(self) -> None:
        """Read what the owner reads in each turn, with a worker that has room."""
        nothing = frozenset[tuple[str, str]]()
        wants = Wants(
            self.now_ms,
            edited=nothing,
            enabled=False,
            schedules=(),
            roomy=(_CONTACT,),
            served_s=_CONTACT.served_s,
            poll_s=MAX_POLL_S,
            walk=Walk(),
        )
        read(self.db, wants)

    def make_due(self) -> str:
        """Materialise one run, so that there is something to admit; returns its id."""
        self.now_ms += GAP_MS
        row = queries.schedule(self.db, _schedule_id(self.now_ms // GAP_MS % SCHEDULES))
        assert row is not None
        plan = (row.schedule_id, row.definition_revision, row.watermark_ms, self.now_ms)
        made = self.commit(ops.Materialise(*plan, missed=(), due=(self.now_ms,)))
        run_id = made.detail["runs"][0]
        assert isinstance(run_id, str)
        return run_id

    def admit(self, run_id: str) -> list[float]:
        """Claim, permit and finish one attempt, with an owner's read before each; returns the seconds of each step."""
        claim = ops.ClaimOp(run_id, 1, WORKER, "a", "disk", ("default",))
        took_s, read_s = [], 0.0
        for step in range(3):
            began_s = time.perf_counter()
            self.look()
            read_s += time.perf_counter() - began_s
            op = claim if step == 0 else self._report(run_id) if step == 2 else self._ask(run_id)  # noqa: PLR2004 -- three
            began_s = time.perf_counter()
            answer = self.commit(op)
            took_s.append(time.perf_counter() - began_s)
            assert answer.kind == ("claimed", "granted", "recorded")[step], answer
        return [*took_s, read_s]

    def _ask(self, run_id: str) -> ops.AdmitOp:
        run, (attempt,) = queries.run(self.db, run_id), queries.attempts(self.db, run_id)
        assert run is not None
        return ops.AdmitOp(WORKER, binding_of(queries.head(self.db), run, attempt), "x1")

    def _report(self, run_id: str) -> ops.FinishOp:
        return ops.FinishOp(
            worker=WORKER,
            run_id=run_id,
            attempt=1,
            incarnation="a",
            ledger="disk",
            succeeded=True,
            reason=None,
            exit_code=0,
            ended_ms=self.now_ms,
        )


def run(folder: Path, many: int, rounds: int, admissions: int) -> None:
    """Fill two checkpoints, admit in turn, and print the table."""
    small, large = (open_writer(folder / f"{name}.db", "NORMAL", create=True) for name in ("few", "many"))
    with closing(small), closing(large):
        pair = (Filled(small), Filled(large))
        took_s = [_fill(each, rows) for each, rows in zip(pair, (FEW, many), strict=True)]
        figures = [_round(pair, admissions) for _ in range(rounds + 1)][1:]  # the first one warms
    say(f"\n### {FEW:,} and {many:,} retained runs, {SCHEDULES} schedules ({took_s[1]:.0f} s to fill)\n")
    rows = []
    for at, step in enumerate(STEPS):
        few, lots = ([one[which][at] * US for one in figures] for which in (0, 1))
        ratio = median(b / a for a, b in zip(few, lots, strict=True))
        rows.append([step, spread(few), spread(lots), f"{ratio:.2f} x"])
    table(["step", f"µs with {FEW:,}", f"µs with {many:,}", "ratio"], rows)


def _round(pair: tuple[Filled, Filled], admissions: int) -> list[list[float]]:
    """Return the median seconds of each step and their sum, for each of the two; they take turns at every admission.

    The sum is of the medians: on a busy machine hardly any whole admission goes by without an interruption.
    """
    took: tuple[list[list[float]], list[list[float]]] = ([], [])
    for _ in range(admissions):
        for each, figures in zip(pair, took, strict=True):
            figures.append(each.admit(each.make_due()))
    for each in pair:
        each.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    steps = [[median(column) for column in zip(*figures, strict=True)] for figures in took]
    return [[*each, sum(each)] for each in steps]


def _fill(filled: Filled, rows: int) -> float:
    """Multiply one run that was really admitted, its attempt and its events; return the seconds that it took."""
    began_s = time.perf_counter()
    filled.begin()
    model = filled.make_due()
    filled.admit(model)
    db = filled.db
    (cache,) = db.execute("PRAGMA cache_size").fetchone()
    db.execute("PRAGMA cache_size = -3000000")  # 3 GB while it is filled: no page is written twice
    db.execute("BEGIN")
    db.execute("CREATE TEMP TABLE copies (run_id TEXT, schedule_id TEXT, name TEXT, at_ms INTEGER, revision INTEGER)")
    first = filled.now_ms + GAP_MS
    head = queries.head(db)
    db.executemany(
        "INSERT INTO copies VALUES (?, ?, ?, ?, ?)", (_copy(first, head.revision, n) for n in range(rows - 1))
    )
    for table_name, changed in _COPIED.items():
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table_name})")]
        chosen = ", ".join(changed.get(column, f"model.{column}") for column in columns)
        db.execute(f"CREATE TEMP TABLE model AS SELECT * FROM {table_name} WHERE run_id = ?", (model,))  # noqa: S608 -- our names
        # Copy by copy, so that keys come in the order in which they come in life.
        db.execute(f"INSERT INTO {table_name} SELECT {chosen} FROM copies CROSS JOIN model")  # noqa: S608 -- our names
        db.execute("DROP TABLE model")
    filled.now_ms = first + rows * GAP_MS
    db.execute("UPDATE head SET revision = ?, now_ms = ?", (head.revision + rows, filled.now_ms))
    db.execute("UPDATE schedules SET watermark_ms = ?", (filled.now_ms,))
    db.execute("DROP TABLE copies")
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.execute(f"PRAGMA cache_size = {cache}")
    db.execute("PRAGMA shrink_memory").fetchall()
    counted = queries.counts(db)["Succeeded"]
    assert counted == rows, counted
    return time.perf_counter() - began_s


_RUN: Final = {"run_id": "copies.run_id", "revision": "copies.revision"}
_INSTANTS: Final = dict.fromkeys(
    ("scheduled_for_ms", "not_before_ms", "closes_ms", "created_ms", "ended_ms"), "copies.at_ms"
)
_COPIED: Final = {
    "runs": {**_RUN, **_INSTANTS, "schedule_id": "copies.schedule_id", "schedule": "copies.name"},
    "attempts": {**_RUN, "token": "copies.revision", "claimed_ms": "copies.at_ms", "ended_ms": "copies.at_ms"},
    "events": {**_RUN, "at_ms": "copies.at_ms", "ordinal": "model.revision * 100 + model.ordinal"},
}


def _copy(first_ms: int, revision: int, n: int) -> tuple[str, str, str, int, int]:
    at_ms, which = first_ms + n * GAP_MS, n % SCHEDULES
    stamp = f"{at_ms:012x}"
    run_id = f"{stamp[:8]}-{stamp[8:]}-8000-8000-{n:012x}"
    return run_id, _schedule_id(which), f"s{which:03d}", at_ms, revision + n + 1


def _schedule_id(n: int) -> str:
    return f"0190a0a0-0000-7000-8000-{n:012x}"


def _spec(n: int) -> ops.ScheduleSpec:
    return ops.ScheduleSpec(
        namespace="bench",
        name=f"s{n:03d}",
        schedule_id=_schedule_id(n),
        trigger=ops.Every(1),
        timezone="UTC",
        overlap="skip",
        pool="default",
        on_unknown="hold",
        retry=ops.Retry(),
        target=CommandTarget(argv=("true", str(n))),
    )


_CONTACT: Final = Contact(
    worker=WORKER,
    pools=None,
    namespaces=None,
    incarnation="a",
    ledger="disk",
    life=1,
    number=1,
    epoch=1,
    slots=1,
    held={},
    complete=True,
    served_s=0.0,
    mono_s=0.0,
)
