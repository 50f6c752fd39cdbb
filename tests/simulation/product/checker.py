"""What must hold, judged by a history of its own: what engines saw, what was answered, what each voter applied.

It reads the rows that voters replicate as an observation, like anybody with a SQLite shell, and asks nothing of the
code under test what it makes of them.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.bearer import Principal
from cluster.listener import Reply
from cluster.log_mirror import Entry
from tests.simulation.product.crash_rows import CrashRows
from tests.simulation.product.linear import Linear
from tests.simulation.product.network import Call
from tests.simulation.product.promises import Promises
from tests.simulation.product.rows import ENDED_ATTEMPT, Key, Row, Rows
from worker.protocol import Claim

if TYPE_CHECKING:
    from tests.simulation.product.voter import Voter
    from tests.simulation.product.world import World

RUN_ID = 36  # letters of a run's id
MAY_BE_SUBMITTED = frozenset({"Admitted", "Cancelling", "Unknown"})


class Checker:
    """Finds violations."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.violations: list[str] = []
        self.digests: dict[int, bytes] = {}
        self.newest = 0  # index applied by anybody
        self.rows = Rows(world)
        self.promises = Promises(world)
        self.crashes = CrashRows(world)
        self.linear = Linear(world)
        self.submissions: dict[Key, str] = {}
        self.granted: dict[Key, set[tuple[Any, ...]]] = defaultdict(set)
        self.stale = 0

    def report(self, what: str) -> None:
        """Note a violation."""
        self._world.note(f"VIOLATION {what}")
        self.violations.append(what)

    def expect(self, holds: object, what: str) -> None:
        """Note a violation unless something holds."""
        if not holds:
            self.report(what)

    # ---- engines

    def submitted(self, host: str, claim: Claim, token: int) -> None:
        """An engine was asked to run an attempt."""
        key = (claim.binding.run_id, claim.binding.attempt)
        self._world.note("submit", host=host, run=key)
        self.expect(key not in self.submissions, f"{key} was submitted twice: {self.submissions.get(key)}, {host}")
        self.submissions[key] = host
        row = self.rows.attempts.get(key, {})
        self.expect(row.get("token") == token, f"{key} is submitted with token {token}: {row}")
        self._may_start(key, row)
        self.crashes.submitted(key)

    def started(self, key: Key) -> None:
        """Work of an attempt began."""
        self._may_start(key, self.rows.attempts.get(key, {}))
        run = self.rows.runs[key[0]]
        if run["apart"]:
            return
        working = [run]
        for other in self._world.alive_works():
            row, its_run = self.rows.attempts[other.key], self.rows.runs[other.key[0]]
            excused = other.key == key or row["superseded"] or row["state"] == "Quiesced" or its_run["apart"]
            if its_run["schedule_id"] != run["schedule_id"] or excused:
                continue
            working.append(its_run)
            let = run["beside"] or its_run["beside"]
            self.expect(let, f"{key} starts beside {other.key} of the same schedule")
        most = self.rows.overlaps.most[run["schedule_id"]]
        self.expect(
            len(working) <= most, f"{key} starts, so that {len(working)} of {run['schedule']} are alive: {most}"
        )

    def _may_start(self, key: Key, row: Row) -> None:
        state = row.get("state")
        excused = state == "Quiesced" and key in self._world.blindly_attested
        self.expect(state in MAY_BE_SUBMITTED or excused, f"{key} starts, its attempt is {state} ({row.get('reason')})")

    # ---- answers

    def admission_answered(self, voter: "Voter", principal: Principal, call: Call, reply: Reply) -> None:
        """A voter has answered a worker."""
        if reply.status != 200:
            return
        if call.path == "/v1/poll":
            self.crashes.polled(msgspec.json.decode(reply.body), reply)
            return
        asked, answers = msgspec.json.decode(call.body)["items"], msgspec.json.decode(reply.body)["items"]
        for item, answer in zip(asked, answers, strict=True):
            if call.path == "/v1/reports":
                self.promises.reported(item, answer)
                self.crashes.reported(item, answer, reply)
                continue
            key = (item["binding"]["run_id"], item["binding"]["attempt"])
            row = self.rows.attempts.get(key, {})
            if call.path == "/v1/permits":
                self.crashes.asked(key, item["reservation"], answer, reply)
            if answer["kind"] == "granted":
                self.granted[key].add((answer["token"], item["reservation"], principal.name))
                self.expect(len(self.granted[key]) == 1, f"{key} was granted more than once: {self.granted[key]}")
                self.expect(row.get("token") == answer["token"], f"{voter.name} grants {key}: {row}")
            if answer["kind"] == "fenced":
                self.expect(row.get("fenced"), f"{voter.name} answers that {key} is fenced: {row}")
                self.expect(key not in self.granted, f"{key} is granted and answered as fenced")

    # ---- what voters apply

    def applied(self, voter: "Voter", entry: Entry, result: object) -> None:
        """A voter applied an entry: all have the same digest there, and the first one shows the rows."""
        digest = voter.checkpoint.digest
        known = self.digests.setdefault(entry.index, digest)
        self.expect(known == digest, f"{voter.name} has another digest at {entry.index}")
        if entry.index <= self.newest:
            return
        self.newest = entry.index
        if isinstance(result, dict) and "verdict" in result:
            self._command(voter, msgspec.msgpack.decode(entry.command[1:]), result)

    def _command(self, voter: "Voter", command: dict[str, Any], result: dict[str, Any]) -> None:
        """Epoch and revision are those expected, or nothing is applied."""
        head = self.rows.head
        fits = (command["expect_epoch"], command["expect_revision"]) == (head["epoch"], head["revision"])
        self.expect(fits == (result["verdict"] == "applied"), f"{result['verdict']}: {command} on {head}")
        before = dict(head)
        self.crashes.command(command, result, before)
        changed = [name for each in result.get("results", ()) for name in each.get("changed", ())]
        self.rows.take(voter.checkpoint._writer._db, changed)  # not by the way on which it may die
        if any(op["type"] == "prune" for op in command["ops"]):
            self.rows.pruned(voter.checkpoint._writer._db)
        self.linear.moved({name.partition(":")[2][:RUN_ID] for name in changed if name[:3] in {"run", "att"}})
        grown = self.rows.head["revision"] - before["revision"]
        self.expect(grown == (1 if fits else 0), f"the revision grows by {grown} with a command that is {result}")
        self.expect(fits or self.rows.head == before, f"a command of a stale owner changed {before}")
        self.stale += not fits

    def attempt_moved(self, key: Key, before: Row | None, row: Row) -> None:
        """An attempt is in another state: is that what engines saw?"""
        state, reason = row["state"], row["reason"]
        work = self._world.work_of(key)
        alive = work is not None and work.alive
        ended = state in ENDED_ATTEMPT and state != "Quiesced"
        self.expect(not (ended and alive), f"{key} is {state} ({reason}), its work is alive on {work and work.host}")
        if state == "Succeeded":
            self.expect(work is not None and work.exit_code == 0, f"{key} is Succeeded, its work {work}")
        elif state == "Failed" and reason == "exit":
            fits = work is not None and work.exit_code == row["exit_code"] != 0
            self.expect(fits, f"{key} is Failed with {row['exit_code']}, its work {work}")
        elif state == "NotLaunched" or (state == "Failed" and reason == "not_consumed"):
            self.expect(key not in self.submissions, f"{key} is {state} ({reason}) and was submitted")
        elif state == "Failed" and reason == "refused":
            self.expect(work is None, f"{key} is refused and yet ran: {work}")
        self.crashes.attempt_moved(key, before, row)
        self._world.attempt_moved(state, row["worker"])

    def run_moved(self, run_id: str, before: Row | None, row: Row) -> None:
        """A run is in another state."""
        if row["state"] == "Cancelled":
            attempts = self.rows.attempts_of(run_id)
            loose = [each["n"] for each in attempts if each["state"] not in ENDED_ATTEMPT]
            self.expect(not loose, f"{run_id} is Cancelled with attempts {loose} open")
            alive = [work.key for work in self._world.alive_works() if work.key[0] == run_id]
            self.expect(not alive, f"{run_id} is Cancelled, alive: {alive}")
        self.crashes.run_moved(run_id, before, row)

    # ---- the end

    def at_end(self) -> None:
        """Everything is at rest: every voter holds the same, all of it, and what was promised."""
        for name, voter in self._world.live.items():
            self.expect(voter.checkpoint.applied_index == self.newest, f"{name} has not applied everything")
            voter.node._replica.read(lambda db, name=name: self._whole(name, db))
        for process in self._world.working.values():
            for key in [each for each in self.submissions if each[0] not in self.rows.forgotten]:
                if self.rows.attempts[key]["ledger"] == process.ledger.id:
                    self.expect(process.ledger.row(*key), f"{process.host_name} has forgotten {key}, voters have not")
        self.crashes.at_end()
        for finding in self.linear.findings():
            self.report(f"not linearizable: {finding}")

    def _whole(self, name: str, db: Any) -> None:
        for fault in self.rows.instants.check(db):
            self.report(f"{name}: {fault}")
        self.promises.check(name, db)
        seen = {(run_id, n): state for run_id, n, state in db.execute("SELECT run_id, n, state FROM attempts")}
        forgotten = self.rows.forgotten
        self.expect(seen.keys() == {key for key in self.rows.attempts if key[0] not in forgotten}, f"{name} lacks some")
        for key, state in seen.items():
            self.expect(self.rows.attempts[key]["state"] == state, f"{name} says {key} is {state}")
