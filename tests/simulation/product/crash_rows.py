"""DESIGN section 5, row by row: which crashes a scenario met, and whether each left what the table says."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from cluster.listener import Reply
from tests.simulation.product.rows import Key, Row

if TYPE_CHECKING:
    from tests.simulation.product.voter import Voter
    from tests.simulation.product.worker_life import WorkerProcess
    from tests.simulation.product.world import World

DUE: Final = "before commit 1: the next owner materialises what was due"
CLAIM_LOST: Final = "claim reply lost: the next poll lists it again"
NEVER_ASKED: Final = "after claim, worker dies before asking: NotLaunched, then the next attempt"
PERMIT_LOST: Final = "permit reply lost, worker alive: the same permit"
NOT_CONSUMED_DEAD: Final = "permit committed, worker restarts before consuming: Unknown"
FORFEITED: Final = "not consumed in time or when draining, same incarnation: Failed(not_consumed)"
IN_SUBMIT: Final = "after consume, before or during submit: Unknown"
NO_RECEIPT: Final = "submit accepted, receipt not persisted: Unknown"
OBSERVED_AGAIN: Final = "accepted, worker restarts, engine is addressable: the real result"
ENGINE_DIED: Final = "accepted, worker restarts, engine died with it: Unknown"
RAN_ON: Final = "accepted, worker restarts, what it ran is out of sight: Unknown"
DISK_LOST: Final = "worker's disk lost: Unknown"
TWO_HOSTS: Final = "two hosts under one worker name: the second is refused"
FINISH_LOST: Final = "finish report lost: repeated until answered"
OWNER_CHANGED: Final = "owner changes: permits ordered before stay valid"
OLD_OWNER: Final = "owner changes: the old owner's proposals change nothing"
QUORUM_LOST: Final = "quorum lost: outcome unknown, never not launched"
HANDED_OVER: Final = "runner stopping, another voter healthy: leadership moves at once"
NO_SUCCESSOR: Final = "runner stopping, no successor: it ends within its deadline"

ROWS: Final = (
    *(DUE, CLAIM_LOST, NEVER_ASKED, PERMIT_LOST, NOT_CONSUMED_DEAD, FORFEITED, IN_SUBMIT, NO_RECEIPT),
    *(OBSERVED_AGAIN, ENGINE_DIED, RAN_ON, DISK_LOST, TWO_HOSTS, FINISH_LOST, OWNER_CHANGED, OLD_OWNER),
    *(QUORUM_LOST, HANDED_OVER, NO_SUCCESSOR),
)
PERMITTED_AND_LOST: Final = frozenset({"Unknown", "Cancelling", "Quiesced"})
HAND_OVER_S: Final = 2.5


class CrashRows:
    """Notices each row as it happens, and what it led to."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.hits: Counter[str] = Counter()
        self._acquired_ms = 0
        self._carried: dict[int, tuple[Reply, str, list[Key]]] = {}  # what a reply says, by its identity
        self._lost_claims: set[Key] = set()
        self._lost_grants: set[Key] = set()
        self._lost_finishes: set[Key] = set()
        self._asked: set[Key] = set()
        self._never_asked: set[str] = set()
        self.at_death: dict[Key, str] = {}  # how far a row had come when its worker's process died
        self.dead: set[str] = set()  # incarnations
        self.wiped: set[str] = set()  # ledgers
        self._stopping: dict[str, float] = {}

    def _hit(self, row: str) -> None:
        self.hits[row] += 1
        self._world.note(f"crash row: {row}")

    # ---- processes

    def worker_died(self, process: "WorkerProcess", rows: dict[Key, str]) -> None:
        """A worker's process is gone; `rows` is what its ledger holds open."""
        self.dead.add(process.worker.incarnation)
        self.at_death.update(rows)

    def stopping(self, voter: "Voter", *, healthy: bool) -> None:
        """A runner was asked to stop; whether enough others are there to take over."""
        if voter.runner.drives and healthy:
            self._stopping[voter.name] = self._world.loop.now_s

    def stopped(self, *, healthy: bool) -> None:
        """A runner that was asked to stop has ended."""
        if not healthy:
            self._hit(NO_SUCCESSOR)

    # ---- what is said

    def polled(self, form: dict[str, Any], reply: Reply) -> None:
        """A poll is answered."""
        keys = [(claim["binding"]["run_id"], claim["binding"]["attempt"]) for claim in form["claims"]]
        if keys:
            self._carried[id(reply)] = (reply, "claims", keys)

    def asked(self, key: Key, reservation: str, answer: dict[str, Any], reply: Reply) -> None:
        """A permit was asked for and is answered."""
        del reservation
        self._asked.add(key)
        if key in self._lost_claims:
            self._lost_claims.discard(key)
            self._hit(CLAIM_LOST)
        if answer["kind"] == "granted":
            self._carried[id(reply)] = (reply, "grants", [key])

    def reported(self, item: dict[str, Any], answer: dict[str, Any], reply: Reply) -> None:
        """A report is answered."""
        key = (item["run_id"], item["attempt"])
        if item["kind"] in {"finish", "confirm_stopped"} and answer["kind"] in {"recorded", "evidence"}:
            if key in self._lost_finishes:
                self._lost_finishes.discard(key)
                self._hit(FINISH_LOST)
            self._carried[id(reply)] = (reply, "finishes", [key])

    def matters(self, reply: Reply) -> bool:
        """Whether a reply says something that has to be said again if it is lost."""
        return id(reply) in self._carried

    def reply_lost(self, reply: Reply) -> None:
        """A reply did not arrive."""
        _, what, keys = self._carried.pop(id(reply), (None, "", []))
        lost = {"claims": self._lost_claims, "grants": self._lost_grants, "finishes": self._lost_finishes}
        for key in keys:
            if what != "claims" or key not in self._asked:
                lost[what].add(key)

    def refused_incarnation(self) -> None:
        """A second process under one name was turned away."""
        self._hit(TWO_HOSTS)

    def uncertain(self) -> None:
        """Somebody was told that the outcome is unknown."""
        self._hit(QUORUM_LOST)

    def submitted(self, key: Key) -> None:
        """An engine was asked."""
        if key in self._lost_grants:
            self._lost_grants.discard(key)
            self._hit(PERMIT_LOST)
        if self._world.checker.rows.head["epoch"] > self._world.checker.rows.attempts.get(key, {"epoch": 0})["epoch"]:
            self._hit(OWNER_CHANGED)

    # ---- what is applied

    def command(self, command: dict[str, Any], result: dict[str, Any], head: Row) -> None:
        """A command was applied, or was not."""
        if result["verdict"] != "applied":
            return
        for op in command["ops"]:
            if op["type"] == "acquire":
                self._acquired_ms = command["now_ms"]
                if any(voter.runner.drives for name, voter in self._world.live.items() if name != op["owner"]):
                    self._hit(OLD_OWNER)
                for name, at_s in list(self._stopping.items()):
                    del self._stopping[name]
                    if name != op["owner"] and self._world.loop.now_s - at_s <= HAND_OVER_S:
                        self._hit(HANDED_OVER)
            elif op["type"] == "materialise" and head["epoch"] > 1:
                due = [*op["due"], *(missed["first_ms"] for missed in op["missed"])]
                if due and min(due) <= self._acquired_ms:
                    self._hit(DUE)

    def attempt_moved(self, key: Key, before: Row | None, row: Row) -> None:
        """An attempt is in another state."""
        state, permitted = row["state"], row["token"] is not None
        if state == "NotLaunched" and key not in self._asked and row["incarnation"] in self.dead:
            self._never_asked.add(key[0])
        if state == "Claimed" and key[0] in self._never_asked:
            self._never_asked.discard(key[0])
            self._hit(NEVER_ASKED)
        if state == "Failed" and row["reason"] == "not_consumed":
            self._hit(FORFEITED)
        phase = self.at_death.get(key)
        if phase is None or not permitted or before is None:
            return
        if phase in {"reserved", "consumed"}:
            fits = state in PERMITTED_AND_LOST or state == "Admitted"  # its request was under way
            self._world.checker.expect(fits, f"{key} was {phase} when its worker died, and is {state} {row['reason']}")
        if phase == "accepted" and state in {"Succeeded", "Failed"}:
            work = self._world.work_of(key)
            addressable = work is not None and work.manner.addressable
            self._world.checker.expect(addressable, f"{key} is {state}, nobody saw the end of what a dead worker ran")
            self._hit(OBSERVED_AGAIN)
        if state == "Unknown" and before["state"] != "Unknown":
            self._left_unknown(key, phase, row)

    def _left_unknown(self, key: Key, phase: str, row: Row) -> None:
        work = self._world.work_of(key)
        if row["ledger"] in self.wiped:
            self._hit(DISK_LOST)
        elif phase == "reserved":
            self._hit(NOT_CONSUMED_DEAD)
        elif phase == "consumed":
            self._hit(IN_SUBMIT if work is None else NO_RECEIPT)
        elif phase == "accepted" and work is not None:
            self._hit(ENGINE_DIED if not work.alive and work.exit_code is None else RAN_ON)

    def run_moved(self, run_id: str, before: Row | None, row: Row) -> None:
        """A run is in another state."""

    def at_end(self) -> None:
        """Nothing that a row promises is still owed."""
        for run_id in self._never_asked:
            state = self._world.checker.rows.runs[run_id]["state"]
            ended = state in {"Cancelled", "Skipped", "Failed", "Quiesced", "Pending"}
            ended = ended or self._world.checker.rows.head["generation"] > 1  # a restore made it Unknown
            # A delivery that ran out of time is what its earlier, superseded attempts leave open.
            ended = ended or any(row["state"] == "Unknown" for row in self._world.checker.rows.attempts_of(run_id))
            self._world.checker.expect(ended, f"{run_id} is {state} without a next attempt after one never launched")
