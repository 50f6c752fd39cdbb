"""What callers were told, held against what is there later."""

import json
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cluster.listener import Reply
from runner.management.replies import STALE
from tests.simulation.product.linear import Told

if TYPE_CHECKING:
    from tests.simulation.product.world import World


@dataclass
class Asked:
    """One change under one key, and all that was answered to it.

    Attributes:
        uncertain: a request of it was lost, or answered as unknown.
    """

    who: str
    path: str
    key: str
    body: dict[str, Any]
    called_s: float
    told: list[dict[str, Any]] = field(default_factory=list)
    answered_s: float | None = None
    uncertain: bool = False


class Promises:
    """Every change that was asked for."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.changes: list[Asked] = []

    def asked(self, who: str, path: str, key: str, body: dict[str, Any]) -> Asked:
        """Somebody asks for a change."""
        self._world.note("ask", who=who, path=path, body=body, key=key)
        asked = Asked(who, path, key, body, self._world.loop.now_s)
        self.changes.append(asked)
        return asked

    def answered(self, asked: Asked, voter: str, reply: Reply | None) -> None:
        """One request of a change was answered, or its reply was lost."""
        if reply is None:
            asked.uncertain = True
            return
        form = json.loads(reply.body)
        self._world.note("told", voter=voter, status=reply.status, key=asked.key, form=form)
        if reply.status in {503, 429}:
            asked.uncertain = asked.uncertain or form["certainty"] == "unknown"
            return
        form.pop("again", None)
        if asked.told and asked.told[0] != form:
            self._world.checker.report(f"{asked.key} was answered {asked.told[0]} and then {form}")
        if asked.answered_s is None:
            asked.answered_s = self._world.loop.now_s
            self._decided(asked, form)
        asked.told.append(form)

    def reported(self, item: dict[str, Any], answer: dict[str, Any]) -> None:
        """A worker's report was answered: what is recorded is there."""
        key = (item["run_id"], item["attempt"])
        row = self._world.checker.rows.attempts.get(key, {})
        if answer["kind"] != "recorded":
            return
        state = row.get("state")
        fits = {
            "finish": state in {"Succeeded", "Failed"},
            "confirm_stopped": state == "Cancelled",
            "forfeit": state == "Cancelled" or row.get("reason") == "not_consumed",
            "accept": row.get("execution_id") == item.get("execution_id"),
            "cannot_tell": state in {"Unknown", "Cancelling", "Quiesced"},
        }
        self._world.checker.expect(fits[item["kind"]], f"{item['kind']} of {key} was recorded: {row}")

    def read(self, path: str, form: Any, called_s: float, reply: Reply) -> None:
        """Something was read; what comes from a voter that could not ask the owner is not linearizable, and says so."""
        if path.startswith("/v1/runs/") and STALE not in reply.headers:
            revision = max((each["row_revision"] for each in form["attempts"]), default=0)
            told = Told(state=form["state"], revision=revision)
            self._world.checker.linear.told(form["run_id"], called_s, told)

    def _decided(self, asked: Asked, form: dict[str, Any]) -> None:
        """The first answer to a cancel or a trigger says something of its run."""
        told = self._world.checker.linear.told
        if asked.path == "/v1/cancel" and "status" not in form:
            told(asked.body["run_id"], asked.called_s, Told(cancelled=True))
        elif asked.path == "/v1/cancel" and form.get("reason") == "terminal":
            told(asked.body["run_id"], asked.called_s, Told(state=form["state"]))
        elif asked.path == "/v1/trigger" and "run_id" in form:
            told(form["run_id"], asked.called_s, Told())

    def check(self, name: str, db: sqlite3.Connection) -> None:
        """Hold one voter's rows, at the end, against all that was told."""
        expect = self._world.checker.expect
        kept = {tuple(row) for row in db.execute("SELECT principal, key FROM operations")}
        for asked in self.changes:
            there = (asked.who, asked.key) in kept
            if asked.told and asked.told[0].get("status", 200) in {200, 404, 409, 422}:
                forgotten = asked.told[0].get("reason") in {"key_too_old", "key_reused"}
                expect(there or forgotten, f"{name} has forgotten {asked}")
                self._effect(name, db, asked)
            elif not asked.told and not asked.uncertain:
                expect(not there, f"{name} has done what was answered as not done: {asked}")

    def _effect(self, name: str, db: sqlite3.Connection, asked: Asked) -> None:
        if "status" in asked.told[0]:  # a problem: refused
            return
        expect = self._world.checker.expect
        if asked.path == "/v1/trigger":
            row = db.execute("SELECT 1 FROM runs WHERE trigger_id = ?", (asked.key,)).fetchone()
            forgotten = asked.told[0]["run_id"] in self._world.checker.rows.forgotten
            expect(row or forgotten, f"{name} has no run of the trigger {asked.key}")
        elif asked.path == "/v1/cancel":
            row = db.execute("SELECT state, cancelled FROM runs WHERE run_id = ?", (asked.body["run_id"],)).fetchone()
            taken_back = self._world.checker.rows.head["generation"] > 1  # by a restore
            expect(row is None or row[1] or taken_back, f"{name}: the cancelled {asked.body} is {row}")
        elif asked.path == "/v1/attest":
            at = (asked.body["run_id"], asked.body["attempt"])
            row = db.execute("SELECT state FROM attempts WHERE run_id = ? AND n = ?", at).fetchone()
            expect(row is None or row[0] == "Quiesced", f"{name}: the attested {at} is {row}")
