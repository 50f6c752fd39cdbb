"""What must hold, judged by a history of its own: what engines saw, what was answered, what each voter applied."""

import sqlite3
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.bearer import Principal
from cluster.listener import Reply
from cluster.log_mirror import Entry
from tests.simulation.product.network import Call
from worker.protocol import Claim

if TYPE_CHECKING:
    from tests.simulation.product.voter import Voter
    from tests.simulation.product.world import World

Key = tuple[str, int]


class Checker:
    """Finds violations; reads rows as anybody with a SQLite shell could, and asks the product nothing."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.violations: list[str] = []
        self.digests: dict[int, bytes] = {}
        self.newest = 0  # index applied by anybody
        self.submissions: dict[Key, str] = {}
        self.permits: dict[Key, Any] = {}
        self.fenced: set[Key] = set()
        self.granted: dict[Key, set[tuple[Any, ...]]] = defaultdict(set)

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
        self.expect(self.permits.get(key) == token, f"{key} is submitted with token {token}: {self.permits.get(key)}")
        self.expect(key not in self.fenced, f"{key} is submitted though fenced")

    # ---- answers

    def admission_answered(self, voter: "Voter", principal: Principal, call: Call, reply: Reply) -> None:
        """A voter has answered a worker."""
        if reply.status != 200 or not call.path.startswith(("/v1/permits", "/v1/fences")):
            return
        asked, answers = msgspec.json.decode(call.body)["items"], msgspec.json.decode(reply.body)["items"]
        for item, answer in zip(asked, answers, strict=True):
            key = (item["binding"]["run_id"], item["binding"]["attempt"])
            if answer["kind"] == "granted":
                self.granted[key].add((answer["token"], item["reservation"], principal.name))
                self.expect(len(self.granted[key]) == 1, f"{key} was granted more than once: {self.granted[key]}")
                self.expect(key in self.permits, f"{voter.name} grants {key}, no permit is committed")
            if answer["kind"] == "fenced":
                self.expect(key not in self.granted, f"{key} is granted and answered as fenced")

    def asked(self, who: str, path: str, key: str, body: dict[str, Any]) -> Any:
        """Somebody asks for a change."""
        self._world.note("ask", who=who, path=path, body=body)
        return (who, path, key)

    def answered(self, asked: Any, voter: str, reply: Reply) -> None:
        """A change was answered."""
        self._world.note("told", voter=voter, status=reply.status, key=asked[2])

    # ---- what voters apply

    def voter_died(self, voter: "Voter") -> None:
        """A process is gone."""

    def applied(self, voter: "Voter", entry: Entry, result: object) -> None:
        """A voter applied an entry: all have the same digest there, and the first one shows the rows."""
        digest = voter.checkpoint.digest
        known = self.digests.setdefault(entry.index, digest)
        self.expect(known == digest, f"{voter.name} has another digest at {entry.index}")
        if entry.index <= self.newest:
            return
        self.newest = entry.index
        if isinstance(result, dict) and result.get("verdict") == "applied":
            for each in result["results"]:
                for name in each.get("changed", ()):
                    self._changed(voter.checkpoint._writer, name)

    def _changed(self, db: sqlite3.Connection, name: str) -> None:
        kind, _, rest = name.partition(":")
        if kind == "attempt":
            run_id, _, n = rest.rpartition(".")
            self._attempt(db, (run_id, int(n)))

    def _attempt(self, db: sqlite3.Connection, key: Key) -> None:
        row = db.execute("SELECT state, token, fenced FROM attempts WHERE run_id = ? AND n = ?", key).fetchone()
        state, token, fenced = row
        self._world.note("attempt", run=key, state=state)
        self.expect(token is None or not fenced, f"{key} has a permit and a fence")
        self.expect(key not in self.permits or self.permits[key] == token, f"the permit of {key} changed")
        self.expect(key not in self.fenced or fenced, f"the fence of {key} is gone")
        if token is not None:
            self.permits[key] = token
        if fenced:
            self.fenced.add(key)
