"""The replicated rows as anybody with a SQLite shell sees them, one command after the other, and what they must obey."""

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from tests.simulation.product.instants import Instants
from tests.simulation.product.overlaps import Overlaps
from tests.simulation.product.rules import Rules

if TYPE_CHECKING:
    from tests.simulation.product.world import World

Key = tuple[str, int]
Row = dict[str, Any]

ENDED_ATTEMPT = frozenset({"Succeeded", "Failed", "Cancelled", "NotLaunched", "Quiesced"})
ENDED_RUN = frozenset({"Succeeded", "Failed", "Cancelled", "Quiesced", "Skipped"})
HOLDING = frozenset({"Claimed", "Admitted", "Accepted", "Cancelling", "Unknown"})
BOUND = ("worker", "incarnation", "ledger", "digest", "authority", "epoch")


class Rows:
    """What the newest applied command left, and whether it may have."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.attempts: dict[Key, Row] = {}
        self.runs: dict[str, Row] = {}
        self.schedules: dict[str, Row] = {}
        self.pools: dict[str, int] = {}
        self.instants = Instants()
        self._rules = Rules(self)
        self.overlaps = Overlaps(self)
        self._born: list[str] = []
        self._launched: list[str] = []
        self.head: Row = {"epoch": 0, "revision": 0}
        self.tokens: dict[int, Key] = {}
        self.forgotten: set[str] = set()  # runs that were pruned
        self._newest_token = 0
        self._generation = 1  # before the command
        self._frozen = False  # before the command, and after it

    def _expect(self, holds: object, what: str) -> None:
        self._world.checker.expect(holds, what)

    def attempts_of(self, run_id: str) -> list[Row]:
        """Return a run's attempts, oldest first."""
        found, n = [], 1
        while (run_id, n) in self.attempts:
            found.append(self.attempts[run_id, n])
            n += 1
        return found

    # ---- taking a command in

    def take(self, db: sqlite3.Connection, changed: list[str]) -> None:
        """Look at every row that a command says it changed."""
        before = self.head
        self.overlaps.begin()
        self._born, self._launched = [], []
        self.head = _one(db, "SELECT * FROM head")
        self._generation = before.get("generation", 1)
        self._frozen = bool(before.get("frozen") and self.head.get("frozen"))
        fresh: dict[str, list[str]] = {}
        for name in changed:
            kind, _, key = name.partition(":")
            fresh.setdefault(kind, []).append(key)
        for name in fresh.get("pool", ()):
            row = _one(db, "SELECT * FROM pools WHERE name = ?", name)
            self.pools[name] = row["capacity"]
        for schedule_id in dict.fromkeys(fresh.get("schedule", ())):
            self._schedule(schedule_id, _one(db, "SELECT * FROM schedules WHERE schedule_id = ?", schedule_id))
        attempts = [(name.rpartition(".")[0], int(name.rpartition(".")[2])) for name in fresh.get("attempt", ())]
        for key in dict.fromkeys(attempts):
            self._attempt(key, _one(db, "SELECT * FROM attempts WHERE run_id = ? AND n = ?", *key))
        for run_id in dict.fromkeys(fresh.get("run", ())):
            self._run(run_id, _one(db, "SELECT * FROM runs WHERE run_id = ?", run_id))
        self.overlaps.end(self._born, self._launched)
        for key in dict.fromkeys(attempts):
            self._capacity(key)

    def _schedule(self, schedule_id: str, row: Row) -> None:
        before = self.schedules.get(schedule_id)
        if row:
            row["spec"] = json.loads(row["spec"] or b"{}")
            self.schedules[schedule_id] = row
            self.overlaps.defined(row)
            if before is not None:
                self._expect(row["watermark_ms"] >= before["watermark_ms"], f"watermark of {schedule_id} goes back")
                self.instants.moved(before, row)

    def pruned(self, db: sqlite3.Connection) -> None:
        """Something was forgotten: only what has ended."""
        kept = {run_id for (run_id,) in db.execute("SELECT run_id FROM runs")}
        for run_id in sorted(self.runs.keys() - kept - self.forgotten):
            self.forgotten.add(run_id)
            state = self.runs[run_id]["state"]
            self._expect(state in ENDED_RUN, f"run {run_id} is forgotten while {state}")
        known = {f"{run_id}.{n}" for run_id, n in db.execute("SELECT run_id, n FROM attempts")}
        left = [name for name in known if name.rpartition(".")[0] not in kept]
        self._expect(not left, f"attempts {left[:3]} of forgotten runs are left")

    # ---- attempts

    def _attempt(self, key: Key, row: Row) -> None:
        before = self.attempts.get(key)
        if not row:  # pruned
            return
        self.attempts[key] = row
        self._permit(key, before, row)
        self._rules.attempt(key, before, row)
        if before is None:
            self._first_seen(key)
        else:
            same = all(row[column] == before[column] for column in BOUND)
            self._expect(same, f"attempt {key} is bound anew: {before} to {row}")
            ended = before["state"] in ENDED_ATTEMPT
            self._expect(not ended or row["state"] == before["state"], f"ended attempt {key} changes: {before}, {row}")
            old = before.get("generation", 1) < self._generation and row["state"] != before["state"]
            fits = not old or row["state"] in {"Unknown", "Cancelling", "Quiesced"}
            self._expect(fits, f"{key} of an earlier generation becomes {row['state']}")
        if before is None or before["state"] != row["state"] or before["unresolved"] != row["unresolved"]:
            why = row["reason"] or ("unresolved" if row["unresolved"] else None)
            self._world.note("attempt", run=key, state=row["state"], why=why)
            self._world.checker.attempt_moved(key, before, row)

    def _permit(self, key: Key, before: Row | None, row: Row) -> None:
        self._expect(row["token"] is None or not row["fenced"], f"{key} has a permit and a fence")
        if before is not None:
            had = before["token"]
            self._expect(had is None or had == row["token"], f"the permit of {key} changed: {had}, {row['token']}")
            self._expect(not before["fenced"] or row["fenced"], f"the fence of {key} is gone")
        if row["token"] is not None and (before is None or before["token"] is None):
            token = row["token"]
            self._expect(token not in self.tokens, f"{key} and {self.tokens.get(token)} have one token")
            self._expect(token > self._newest_token, f"the token of {key} is not larger than those before")
            self._expect(before is not None and before["state"] == "Claimed", f"{key} is permitted while {before}")
            self._expect(not self._frozen, f"{key} is permitted while everything is frozen")
            self.tokens[token], self._newest_token = key, max(token, self._newest_token)

    def _first_seen(self, key: Key) -> None:
        run_id, n = key
        self._expect(not self._frozen or self.attempts[key]["state"] != "Claimed", f"{key} is claimed while frozen")
        if n > 1 and self.attempts[key]["worker"]:  # one without was never claimed: a restore made it
            last = self.attempts.get((run_id, n - 1))
            fit = last is not None and (last["state"] in {"Failed", "NotLaunched"} or last["superseded"])
            run = self.runs.get(run_id, {})
            fit = fit or run.get("reopened_after", 0) >= n - 1
            self._expect(fit, f"attempt {key} follows {last}")

    def _capacity(self, key: Key) -> None:
        """A claim is taken only where its pool has room, and only one run of a schedule is under way."""
        row = self.attempts[key]
        if row["state"] == "Claimed" and row["revision"] == self.head["revision"]:
            pool = row["authority"]
            held = sum(
                each["authority"] == pool and each["state"] in HOLDING and not each["superseded"]
                for each in self.attempts.values()
            )
            self._expect(held <= self.pools.get(pool, 64), f"{held} attempts hold {pool}: {self.pools.get(pool)}")

    # ---- runs

    def _run(self, run_id: str, row: Row) -> None:
        before = self.runs.get(run_id)
        if not row:  # pruned
            return
        self.runs[run_id] = row
        if before is not None and before["state"] == "Pending" and row["state"] == "Active":
            self._launched.append(run_id)
        if before is None:
            self._born.append(run_id)
            self._expect(not self._frozen or row["state"] == "Skipped", f"{run_id} is made while everything is frozen")
            if row["scheduled_for_ms"] is not None:
                floor_ms = self.schedules.get(row["schedule_id"], {}).get("pruned_before_ms") or 0
                self.instants.materialised(row, floor_ms)
        elif before["state"] in ENDED_RUN and row["state"] != before["state"]:
            reopened = before["state"] == "Failed" and row["state"] == "Pending" and row.get("reopened_after", 0)
            self._expect(reopened, f"ended run {run_id} changes from {before['state']} to {row['state']}")
        if before is None or before["state"] != row["state"]:
            self._world.note("run", run=run_id, state=row["state"], why=row["reason"])
            self._overlap(row)
            self._world.checker.run_moved(run_id, before, row)

    def _overlap(self, row: Row) -> None:
        if row["beside"] or row["state"] not in {"Active", "Unknown", "Cancelling"}:
            return
        under_way = [
            run["run_id"]
            for run in self.runs.values()
            if run["schedule_id"] == row["schedule_id"]
            and run["state"] not in ENDED_RUN
            and not run["beside"]
            and not any(each["reason"] == "restored" for each in self.attempts_of(run["run_id"]))
            and (run["run_id"], run.get("reopened_after", 0) + 1) in self.attempts
        ]
        self._expect(len(under_way) <= 1, f"{len(under_way)} runs of {row['schedule']} are under way: {under_way}")


def _one(db: sqlite3.Connection, sql: str, *values: object) -> Row:
    cursor = db.execute(sql, values)
    found = cursor.fetchone()
    return {} if found is None else dict(zip((column[0] for column in cursor.description), found, strict=True))
