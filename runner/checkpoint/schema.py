"""The checkpoint's tables: time-ordered keys, no rowid, nothing stored twice that a query can derive in bounded time.

Booleans are 0 and 1; instants are milliseconds since the epoch, UTC; `revision` is the one that last changed the row.
"""

from typing import Final

_HEAD: Final = """
CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    cluster_id TEXT NOT NULL, generation INTEGER NOT NULL,
    epoch INTEGER NOT NULL, owner TEXT, revision INTEGER NOT NULL,
    now_ms INTEGER NOT NULL, token_counter INTEGER NOT NULL, frozen INTEGER NOT NULL, restored_ms INTEGER
) STRICT, WITHOUT ROWID"""

_POOLS: Final = """
CREATE TABLE pools (
    name TEXT PRIMARY KEY, capacity INTEGER NOT NULL, revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID"""

# `digest` is of the target in `spec`. A deleted schedule keeps its row: the tombstone.
# `defined_ms`: when its definition took effect.
# `beside_limit`: the run with the slot is launched only while fewer runs than this are open beside it.
# `tail_skip_ms`: first instant of the skip range that holds the newest planned instant, if that one was skipped.
_SCHEDULES: Final = """
CREATE TABLE schedules (
    schedule_id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL,
    spec BLOB NOT NULL, digest TEXT NOT NULL,
    enabled INTEGER NOT NULL, definition_revision INTEGER NOT NULL,
    watermark_ms INTEGER NOT NULL, anchor_ms INTEGER NOT NULL,
    slot_run_id TEXT, tail_skip_ms INTEGER, pruned_before_ms INTEGER, deleted_ms INTEGER,
    planned_runs INTEGER NOT NULL DEFAULT 0, defined_ms INTEGER, beside_limit INTEGER NOT NULL DEFAULT 1,
    revision INTEGER NOT NULL,
    UNIQUE (namespace, name)
) STRICT, WITHOUT ROWID"""

_PAYLOADS: Final = """
CREATE TABLE payloads (
    digest TEXT PRIMARY KEY, target BLOB NOT NULL
) STRICT, WITHOUT ROWID"""

# `closes_ms` is the end of the catch-up window; `closing_ms` is the closing instant in force, NULL for none.
_RUNS: Final = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, schedule_id TEXT NOT NULL, namespace TEXT NOT NULL, schedule TEXT NOT NULL,
    schedule_revision INTEGER NOT NULL, scheduled_for_ms INTEGER, trigger_id TEXT, triggered_ms INTEGER,
    occurrence TEXT NOT NULL, state TEXT NOT NULL, reason TEXT,
    pool TEXT NOT NULL, digest TEXT NOT NULL, attempts_allowed INTEGER NOT NULL,
    backoff_ms INTEGER NOT NULL, factor_milli INTEGER NOT NULL, max_backoff_ms INTEGER NOT NULL, on_exit_codes TEXT,
    on_unknown TEXT NOT NULL, not_before_ms INTEGER NOT NULL,
    closes_ms INTEGER NOT NULL, deadline_ms INTEGER, reopened_after INTEGER NOT NULL, closing_ms INTEGER,
    cancelled INTEGER NOT NULL, closed INTEGER NOT NULL,
    beside INTEGER NOT NULL, apart INTEGER NOT NULL DEFAULT 0, caught_up TEXT,
    created_ms INTEGER NOT NULL, ended_ms INTEGER, revision INTEGER NOT NULL,
    UNIQUE (schedule_id, scheduled_for_ms), UNIQUE (schedule_id, trigger_id)
) STRICT, WITHOUT ROWID"""

_SKIPS: Final = """
CREATE TABLE skips (
    schedule_id TEXT NOT NULL, first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL,
    namespace TEXT NOT NULL, schedule TEXT NOT NULL,
    count INTEGER NOT NULL, reason TEXT NOT NULL, revision INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, first_ms)
) STRICT, WITHOUT ROWID"""

_ATTEMPTS: Final = """
CREATE TABLE attempts (
    run_id TEXT NOT NULL, n INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
    unresolved INTEGER NOT NULL, superseded INTEGER NOT NULL, won INTEGER NOT NULL,
    worker TEXT NOT NULL, incarnation TEXT NOT NULL, ledger TEXT NOT NULL,
    owner TEXT NOT NULL, epoch INTEGER NOT NULL, generation INTEGER NOT NULL,
    authority TEXT NOT NULL, digest TEXT NOT NULL,
    reservation TEXT, token INTEGER, fenced INTEGER NOT NULL, execution_id TEXT, exit_code INTEGER,
    claimed_ms INTEGER NOT NULL, admitted_ms INTEGER, started_ms INTEGER, ended_ms INTEGER, cancelling_ms INTEGER,
    tail TEXT NOT NULL, evidence TEXT NOT NULL, revision INTEGER NOT NULL,
    PRIMARY KEY (run_id, n),
    CHECK (token IS NULL OR fenced = 0)
) STRICT, WITHOUT ROWID"""

_RETIRED: Final = """
CREATE TABLE retired (
    worker TEXT NOT NULL, incarnation TEXT NOT NULL, at_ms INTEGER NOT NULL, revision INTEGER NOT NULL,
    PRIMARY KEY (worker, incarnation)
) STRICT, WITHOUT ROWID"""

# `kept_from_ms`: the later of the commit and the instant in the key itself; retention counts from it.
_OPERATIONS: Final = """
CREATE TABLE operations (
    principal TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, result BLOB NOT NULL,
    kept_from_ms INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID"""

_EVENTS: Final = """
CREATE TABLE events (
    revision INTEGER NOT NULL, ordinal INTEGER NOT NULL, at_ms INTEGER NOT NULL, actor TEXT NOT NULL,
    run_id TEXT, attempt INTEGER, op TEXT NOT NULL, from_state TEXT, to_state TEXT,
    why TEXT, evidence TEXT,
    PRIMARY KEY (revision, ordinal)
) STRICT, WITHOUT ROWID"""

HOLDING: Final = "state IN ('Claimed', 'Admitted', 'Accepted', 'Cancelling', 'Unknown') AND superseded = 0"
"""SQL: the attempt holds capacity of its pool (`attempt.holds_capacity` says the same; a test compares them)."""
OPEN: Final = "state IN ('Claimed', 'Admitted', 'Accepted', 'Cancelling')"
"""SQL: the attempt has a deadline that the owner watches."""
IN_LINE: Final = "ended_ms IS NULL AND beside = 0 AND apart = 0"
"""SQL: the run has its schedule's slot or waits for it, or a restore left it uncertain without."""
BESIDE: Final = "ended_ms IS NULL AND beside = 1 AND apart = 0"
"""SQL: the run is open beside its schedule's slot, and overlap counts it."""
ATTESTABLE: Final = "(state = 'Unknown' OR (state = 'Cancelling' AND unresolved = 1))"
"""SQL: a human may attest it (`attempt.MOVES` and its guards say the same; a test compares them)."""

# How many instants are in each run state. The one thing that is stored although a query could tell: it would count for
# longer with every run that is kept. Triggers keep it, so that no statement can forget to.
_TALLIES: Final = """
CREATE TABLE tallies (
    state TEXT PRIMARY KEY, count INTEGER NOT NULL
) STRICT, WITHOUT ROWID"""

_COUNT: Final = (
    "INSERT INTO tallies VALUES ({state}, {count}) ON CONFLICT (state) DO UPDATE SET count = count + excluded.count;"
)
_COUNTED: Final = {
    "INSERT ON runs": (("NEW.state", "1"),),
    "UPDATE OF state ON runs": (("OLD.state", "-1"), ("NEW.state", "1")),
    "DELETE ON runs": (("OLD.state", "-1"),),
    "INSERT ON skips": (("'Skipped'", "NEW.count"),),
    "UPDATE OF count ON skips": (("'Skipped'", "NEW.count - OLD.count"),),
    "DELETE ON skips": (("'Skipped'", "-OLD.count"),),
}
_TRIGGERS: Final = tuple(
    f"CREATE TRIGGER tally_{n} AFTER {when} BEGIN "
    + " ".join(_COUNT.format(state=state, count=count) for state, count in changes)
    + " END"
    for n, (when, changes) in enumerate(_COUNTED.items(), 1)
)

_INDEXES: Final = (
    "CREATE INDEX runs_of_schedule ON runs (schedule_id, state, run_id)",
    "CREATE INDEX runs_of_namespace ON runs (namespace, state, run_id)",
    "CREATE INDEX runs_by_state ON runs (state, run_id)",
    "CREATE INDEX runs_open ON runs (schedule_id, beside, apart, run_id) WHERE ended_ms IS NULL",
    "CREATE INDEX runs_waiting ON runs (pool, namespace, beside, schedule_id) WHERE state = 'Pending'",
    "CREATE INDEX runs_beside ON runs (pool, namespace, not_before_ms, run_id) WHERE state = 'Pending' AND beside = 1",
    "CREATE INDEX runs_closing ON runs (closing_ms) WHERE state = 'Pending' AND closing_ms IS NOT NULL",
    "CREATE INDEX runs_of_target ON runs (digest)",
    "CREATE INDEX schedules_of_target ON schedules (digest)",
    "CREATE INDEX skips_by_time ON skips (last_ms, schedule_id)",
    "CREATE INDEX skips_of_schedule ON skips (schedule_id, last_ms)",
    "CREATE INDEX skips_of_namespace ON skips (namespace, last_ms, schedule_id)",
    f"CREATE INDEX attempts_holding ON attempts (authority) WHERE {HOLDING}",
    f"CREATE INDEX attempts_open ON attempts (worker, incarnation) WHERE {OPEN}",
    f"CREATE INDEX attempts_attestable ON attempts (worker, incarnation, run_id, n) WHERE {ATTESTABLE}",
    "CREATE INDEX operations_by_age ON operations (kept_from_ms)",
    "CREATE INDEX events_of_freezes ON events (revision, ordinal) WHERE op = 'freeze'",
    "CREATE INDEX events_of_skips ON events (at_ms) WHERE run_id IS NULL AND op = 'materialise'",
    "CREATE INDEX events_of_run ON events (run_id, revision, ordinal) WHERE run_id IS NOT NULL",
)

STATEMENTS: Final = (
    _HEAD,
    _POOLS,
    _SCHEDULES,
    _PAYLOADS,
    _RUNS,
    _SKIPS,
    _ATTEMPTS,
    _RETIRED,
    _OPERATIONS,
    _EVENTS,
    _TALLIES,
    *_INDEXES,
    *_TRIGGERS,
)

TABLES: Final[tuple[str, ...]] = (
    "attempts",
    "events",
    "head",
    "operations",
    "payloads",
    "pools",
    "retired",
    "runs",
    "schedules",
    "skips",
    "tallies",
)
"""Names that the cluster listener may read rows of."""
