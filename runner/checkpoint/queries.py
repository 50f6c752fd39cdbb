"""What the checkpoint says, as records; reads only, every one with a fixed order."""

# ruff: noqa: S608 -- every statement is put together from constants of this package; values are always bound

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from runner.checkpoint.marks import EventMark, RunMark
from runner.checkpoint.records import Attempt, Event, Head, Pool, Run, RunState, Schedule, SkipRange
from runner.checkpoint.results import OpResult
from runner.checkpoint.rows import ATTEMPT_COLUMNS, RUN_COLUMNS, SCHEDULE_COLUMNS, attempt_of, run_of, schedule_of
from runner.checkpoint.schema import HOLDING, OPEN
from worker.protocol import CommandTarget

_HEAD: Final = (
    "SELECT cluster_id, generation, epoch, owner, revision, now_ms, token_counter, frozen, restored_ms FROM head"
)
_RUNS: Final = f"SELECT {RUN_COLUMNS} FROM runs JOIN schedules USING (schedule_id)"
_ATTEMPTS: Final = f"SELECT {ATTEMPT_COLUMNS} FROM attempts"
_SKIPS: Final = "SELECT schedule_id, namespace, schedule, first_ms, last_ms, count, reason, revision FROM skips"
_SCHEDULES: Final = f"SELECT {SCHEDULE_COLUMNS} FROM schedules"
_EVENTS: Final = (
    "SELECT revision, ordinal, at_ms, actor, run_id, attempt, op, from_state, to_state, why, evidence FROM events"
)

_target_decoder = msgspec.json.Decoder(CommandTarget)
_result_decoder = msgspec.msgpack.Decoder(OpResult)


def head(db: sqlite3.Connection) -> Head:
    """Return the register's own row."""
    cluster_id, generation, epoch, owner, revision, now_ms, token_counter, *rest = db.execute(_HEAD).fetchone()
    frozen, restored_ms = rest
    return Head(cluster_id, generation, epoch, owner, revision, now_ms, token_counter, bool(frozen), restored_ms)


def schedules(db: sqlite3.Connection) -> list[Schedule]:
    """Return all schedules that are not deleted, by namespace and name."""
    return list(each_schedule(db))


def each_schedule(
    db: sqlite3.Connection,
    *,
    namespaces: Collection[str] | None = None,
    after: tuple[str, str] = ("", ""),
    limit: int = -1,
) -> Iterator[Schedule]:
    """Read schedules that are not deleted now, by namespace and name, and decode each only as it is taken.

    Args:
        db: the checkpoint.
        namespaces: of which; None for all.
        after: namespace and name of the last one of the page before.
        limit: how many; -1 for all.
    """
    among = "" if namespaces is None else f" AND namespace IN ({', '.join('?' * len(namespaces))})"
    where = f"WHERE deleted_ms IS NULL AND (namespace, name) > (?, ?){among}"
    values = (*after, *sorted(namespaces or ()), limit)
    return map(schedule_of, db.execute(f"{_SCHEDULES} {where} ORDER BY namespace, name LIMIT ?", values).fetchall())


def enabled_ids(db: sqlite3.Connection) -> list[str]:
    """Return the ids of all enabled schedules, in order."""
    return [row[0] for row in db.execute("SELECT schedule_id FROM schedules WHERE enabled ORDER BY schedule_id")]


def schedule_named(db: sqlite3.Connection, namespace: str, name: str) -> Schedule | None:
    """Return the schedule of a name, or its tombstone, or None."""
    row = db.execute(f"{_SCHEDULES} WHERE namespace = ? AND name = ?", (namespace, name)).fetchone()
    return None if row is None else schedule_of(row)


def schedule(db: sqlite3.Connection, schedule_id: str) -> Schedule | None:
    """Return one schedule, or None."""
    row = db.execute(f"{_SCHEDULES} WHERE schedule_id = ?", (schedule_id,)).fetchone()
    return None if row is None else schedule_of(row)


def schedules_after(db: sqlite3.Connection, schedule_id: str, limit: int) -> Iterator[Schedule]:
    """Read some schedules now, deleted ones too, those whose ids come after one; decode each only as it is taken."""
    return map(
        schedule_of,
        db.execute(f"{_SCHEDULES} WHERE schedule_id > ? ORDER BY schedule_id LIMIT ?", (schedule_id, limit)).fetchall(),
    )


def has_schedule(db: sqlite3.Connection, schedule_id: str) -> bool:
    """Return whether a schedule has this id."""
    return db.execute("SELECT 1 FROM schedules WHERE schedule_id = ?", (schedule_id,)).fetchone() is not None


def open_runs(db: sqlite3.Connection, schedule_id: str) -> int:
    """Return how many runs of a schedule have not ended."""
    open_ones = "SELECT COUNT(*) FROM runs WHERE schedule_id = ? AND ended_ms IS NULL"
    count: int = db.execute(open_ones, (schedule_id,)).fetchone()[0]
    return count


def slot_of(db: sqlite3.Connection, schedule_id: str) -> str | None:
    """Return the run that holds a schedule's overlap slot, or None."""
    held: str | None = db.execute("SELECT slot_run_id FROM schedules WHERE schedule_id = ?", (schedule_id,)).fetchone()[
        0
    ]
    return held


def run(db: sqlite3.Connection, run_id: str) -> Run | None:
    """Return one run, or None."""
    row = db.execute(f"{_RUNS} WHERE runs.run_id = ?", (run_id,)).fetchone()
    return None if row is None else run_of(row)


def attempts(db: sqlite3.Connection, run_id: str) -> list[Attempt]:
    """Return a run's attempts, oldest first."""
    return [attempt_of(row) for row in db.execute(f"{_ATTEMPTS} WHERE run_id = ? ORDER BY n", (run_id,))]


def target(db: sqlite3.Connection, digest: str) -> CommandTarget:
    """Return the frozen target that a run or claim names by digest.

    Raises:
        KeyError: no run or schedule ever froze such a target.
    """
    row = db.execute("SELECT target FROM payloads WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise KeyError(digest)
    return _target_decoder.decode(row[0])


def pools(db: sqlite3.Connection) -> list[Pool]:
    """Return all pools by name, with how many attempts hold capacity in each."""
    held = f"SELECT COUNT(*) FROM attempts WHERE authority = pools.name AND {HOLDING}"
    return [Pool(*row) for row in db.execute(f"SELECT name, capacity, ({held}) FROM pools ORDER BY name")]


def pool_limits(db: sqlite3.Connection) -> dict[str, int]:
    """Return the limit of every pool, by name."""
    return dict(db.execute("SELECT name, capacity FROM pools ORDER BY name").fetchall())


def pool(db: sqlite3.Connection, name: str) -> Pool | None:
    """Return one pool with what is held of it, or None."""
    held = f"SELECT COUNT(*) FROM attempts WHERE authority = ?1 AND {HOLDING}"
    row = db.execute(f"SELECT name, capacity, ({held}) FROM pools WHERE name = ?1", (name,)).fetchone()
    return None if row is None else Pool(*row)


def is_retired(db: sqlite3.Connection, worker: str, incarnation: str) -> bool:
    """Return whether a human attested this process life quiescent; it gets no claim and no permit any more."""
    found = db.execute("SELECT 1 FROM retired WHERE worker = ? AND incarnation = ?", (worker, incarnation))
    return found.fetchone() is not None


def open_attempts(db: sqlite3.Connection) -> list[Attempt]:
    """Return the attempts that have a deadline: Claimed, Admitted, Accepted, Cancelling; by run and attempt."""
    # Without the name, SQLite spares the sorting of a few and walks through every attempt that is kept.
    rows = db.execute(f"{_ATTEMPTS} INDEXED BY attempts_open WHERE {OPEN} ORDER BY run_id, n")
    return [attempt_of(row) for row in rows]


def open_claims(db: sqlite3.Connection, worker: str, incarnation: str) -> list[tuple[Run, Attempt]]:
    """Return what is Claimed for one incarnation, oldest first."""
    rows = db.execute(
        f"{_ATTEMPTS} WHERE {OPEN} AND state = 'Claimed' AND worker = ? AND incarnation = ? ORDER BY run_id, n",
        (worker, incarnation),
    )
    claims = [attempt_of(row) for row in rows]
    return [(_present(run(db, claim.run_id)), claim) for claim in claims]


def stops(db: sqlite3.Connection, worker: str) -> list[Attempt]:
    """Return the Cancelling attempts of a worker, whichever incarnation they are bound to; oldest first."""
    rows = db.execute(f"{_ATTEMPTS} WHERE {OPEN} AND state = 'Cancelling' AND worker = ? ORDER BY run_id, n", (worker,))
    return [attempt_of(row) for row in rows]


def attempts_where(db: sqlite3.Connection, condition: str, values: Sequence[object] = ()) -> Iterator[Attempt]:
    """Yield attempts by a condition of this package, its order included; read as they are taken."""
    return map(attempt_of, db.execute(f"{_ATTEMPTS} WHERE {condition}", values))


def closing(db: sqlite3.Connection, now_ms: int, limit: int) -> list[str]:
    """Return the Pending runs whose closing instant has passed, the longest past first."""
    rows = db.execute(
        "SELECT run_id FROM runs WHERE state = 'Pending' AND closing_ms IS NOT NULL AND closing_ms <= ?"
        " ORDER BY closing_ms, run_id LIMIT ?",
        (now_ms, limit),
    )
    return [row[0] for row in rows]


def runs(
    db: sqlite3.Connection,
    *,
    schedule_id: str | None,
    state: RunState | None,
    limit: int,
    namespaces: Collection[str] | None = None,
    before: RunMark | None = None,
) -> list[Run | SkipRange]:
    """Return runs and skipped ranges, newest instant first, from after a mark on; of some namespaces or of all.

    Within namespaces and schedules each state is read apart: that is one seek, where looking for a rare state is a long
    walk. So however many runs are kept, a few are read for each that is returned.
    """
    among = (None,) if namespaces is None else tuple(sorted(namespaces))
    apart = namespaces is not None or schedule_id is not None
    states = tuple(RunState) if state is None and apart else (state,)
    found: list[Run | SkipRange] = []
    for namespace in among:
        for each in states:
            wanted = {"runs.namespace": namespace, "runs.schedule_id": schedule_id, "runs.state": each and each.value}
            where, values = _where(wanted, () if before is None else (("runs.run_id < ?", before.first_run_id),))
            rows = db.execute(f"{_RUNS} {where} ORDER BY runs.run_id DESC LIMIT ?", (*values, limit))
            found += [run_of(row) for row in rows]
        if state in {None, RunState.SKIPPED}:
            found += _skips(db, {"namespace": namespace, "schedule_id": schedule_id}, before, limit)
    return sorted(found, key=RunMark.of, reverse=True)[:limit]


def _skips(
    db: sqlite3.Connection, wanted: Mapping[str, str | None], before: RunMark | None, limit: int
) -> Iterator[SkipRange]:
    further: tuple[tuple[object, ...], ...] = ()
    if before is not None:
        further = (("(last_ms, schedule_id) < (?, ?)", before.at_ms, before.id if before.rank == 0 else "~"),)
    where, values = _where(wanted, further)
    order = "ORDER BY last_ms DESC, schedule_id DESC LIMIT ?"
    return (SkipRange(*row) for row in db.execute(f"{_SKIPS} {where} {order}", (*values, limit)))


def counts(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many instants are in each run state; a skipped range counts as many as it holds."""
    found = {state.value: 0 for state in RunState}
    found.update(db.execute("SELECT state, count FROM tallies ORDER BY state").fetchall())
    return found


def events(db: sqlite3.Connection, *, run_id: str | None, limit: int, before: EventMark | None = None) -> list[Event]:
    """Return the trail, newest first, from after a mark on."""
    further = () if before is None else (("(revision, ordinal) < (?, ?)", before.revision, before.ordinal),)
    where, values = _where({"run_id": run_id}, further)
    order = "ORDER BY revision DESC, ordinal DESC LIMIT ?"
    return [Event(*row) for row in db.execute(f"{_EVENTS} {where} {order}", (*values, limit))]


def kept_operation(db: sqlite3.Connection, principal: str, key: str) -> tuple[str, OpResult] | None:
    """Return the body digest and the result that an operation key stands for, or None."""
    row = db.execute(
        "SELECT digest, result FROM operations WHERE principal = ? AND key = ?", (principal, key)
    ).fetchone()
    return None if row is None else (row[0], _result_decoder.decode(row[1]))


def _where(
    wanted: Mapping[str, str | None], further: Iterable[tuple[object, ...]] = ()
) -> tuple[str, tuple[object, ...]]:
    """Return the clause and its values: columns that equal what is wanted of them, and conditions with their values."""
    equal = ((f"{column} = ?", value) for column, value in wanted.items() if value is not None)
    conditions: list[tuple[object, ...]] = [*equal, *further]
    clause = " AND ".join(str(condition) for condition, *_ in conditions)
    return (f"WHERE {clause}" if clause else ""), tuple(value for _, *values in conditions for value in values)


def _present(found: Run | None) -> Run:
    assert found is not None, "an attempt without its run"
    return found
