"""The judges of the simulation see what they are there for: each is shown a wrong history, and a right one."""

import sqlite3
from typing import Any

from tests.linearizability.checker import check
from tests.linearizability.history import Done, Operation, Unknown
from tests.simulation.product.instants import Instants
from tests.simulation.product.linear import Advance, Ask, Fence, Life, Permit, Seen, Standing, Told
from tests.simulation.product.overlaps import Overlaps


def schedule(watermark_ms: int, **changed: Any) -> dict[str, Any]:
    spec = {"trigger": {"type": "every", "interval_s": 2}}
    row = {"schedule_id": "s", "spec": spec, "anchor_ms": 1_000, "watermark_ms": watermark_ms, "enabled": 1}
    return {**row, **changed}


def checkpoint(runs: list[int], skips: list[tuple[int, int, int]]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE schedules (schedule_id, pruned_before_ms)")
    db.execute("CREATE TABLE runs (schedule_id, scheduled_for_ms)")
    db.execute("CREATE TABLE skips (schedule_id, first_ms, last_ms, count)")
    db.executemany("INSERT INTO runs VALUES ('s', ?)", [(at_ms,) for at_ms in runs])
    db.executemany("INSERT INTO skips VALUES ('s', ?, ?, ?)", skips)
    return db


def instants() -> Instants:
    """Planned: 3, 5, 7, 9 and 11 s; none while it was disabled."""
    found = Instants()
    found.moved(schedule(1_000), schedule(7_500))
    found.moved(schedule(7_500), schedule(11_000, enabled=0))
    found.moved(schedule(11_000, enabled=0), schedule(15_000))
    return found


def test_every_instant_is_a_run_or_lies_in_a_range() -> None:
    assert instants().check(checkpoint([3_000, 11_000], [(5_000, 9_000, 3)])) == []


def test_an_instant_is_missing_or_there_too_often() -> None:
    for runs, skips in (
        ([3_000], [(5_000, 9_000, 3)]),
        ([3_000, 5_000, 11_000], [(5_000, 9_000, 3)]),
        ([3_000, 11_000], [(5_000, 9_000, 2)]),
        ([3_000, 11_000], [(5_000, 10_000, 3)]),
        ([3_000, 11_000, 13_000], [(5_000, 9_000, 3)]),
        ([3_000, 4_000, 11_000], [(5_000, 9_000, 3)]),
    ):
        assert instants().check(checkpoint(runs, skips)), (runs, skips)


def test_two_runs_of_one_instant_are_seen_though_one_row_took_the_place_of_the_other() -> None:
    found = instants()
    for _ in range(2):
        found.materialised({"schedule_id": "s", "scheduled_for_ms": 3_000}, 0)
    assert found.check(checkpoint([3_000, 11_000], [(5_000, 9_000, 3)]))


def test_nothing_that_may_have_been_forgotten_is_made_again() -> None:
    found = instants()
    found.materialised({"schedule_id": "s", "scheduled_for_ms": 3_000}, 3_000)
    assert found.check(checkpoint([3_000, 11_000], [(5_000, 9_000, 3)]))


def asked(call: object, result: object, called: float, answered: float) -> Operation:
    return Operation("a", call, called, Done(result, answered))


def test_a_permit_is_granted_to_one_reservation_or_fenced() -> None:
    hidden = Operation("a", Fence(), 0.0, Unknown())
    again = [asked(Ask("x"), "granted", 1, 2), asked(Ask("x"), "granted", 3, 4), asked(Seen("permit"), True, 5, 6)]
    assert not check([*again, hidden], Permit())
    assert not check([asked(Seen("fence"), True, 3, 4), hidden], Permit())
    assert check([*again, asked(Ask("y"), "granted", 7, 8)], Permit())
    assert check([*again, asked(Seen("fence"), True, 7, 8), hidden], Permit())
    assert check([asked(Fence(), "fenced", 1, 2), asked(Ask("x"), "granted", 3, 4)], Permit())


def test_what_is_told_of_a_run_was_so_between_question_and_answer() -> None:
    pending, active = Standing("Pending", cancelled=False, revision=0), Standing("Active", cancelled=False, revision=7)
    moves = [asked(Advance(None, pending), True, 1, 2), asked(Advance(pending, active), True, 5, 6)]
    assert not check([*moves, asked(Told(state="Pending"), True, 4, 8)], Life())
    assert not check([*moves, asked(Told(state="Active", revision=7), True, 4, 8)], Life())
    assert check([*moves, asked(Told(state="Pending"), True, 7, 8)], Life()), "a stale read"
    assert check([*moves, asked(Told(cancelled=True), True, 7, 8)], Life()), "a cancel that was lost"
    assert check([*moves, asked(Told(state="Active"), True, 2, 4)], Life()), "before it was so"


class Open:
    """Rows of one schedule, as far as overlap looks at them; what is found wrong with them."""

    def __init__(self, **spec: Any) -> None:
        self.found: list[str] = []
        self.runs: dict[str, dict[str, Any]] = {}
        self.overlaps = Overlaps(self)  # type: ignore[arg-type]  # the few members that it asks for
        self.schedules: dict[str, dict[str, Any]] = {}
        self.define(1, **spec)

    def define(self, revision: int, **spec: Any) -> None:
        row = {"schedule_id": "s", "name": "e", "definition_revision": revision, "spec": spec, "slot_run_id": None}
        self.schedules["s"] = row
        self.overlaps.defined(row)

    def command(self, *born: str, beside: int = 0, launched: tuple[str, ...] = ()) -> list[str]:
        """Let runs be born or launched, and return what is wrong with that."""
        self.found.clear()
        self.overlaps.begin()
        for run_id in born:
            revision = self.schedules["s"]["definition_revision"]
            row = {"run_id": run_id, "schedule_id": "s", "schedule": "e", "schedule_revision": revision, "apart": 0}
            self.runs[run_id] = {**row, "state": "Pending", "beside": beside, "trigger_id": None}
        for run_id in launched:
            self.runs[run_id] = {**self.runs[run_id], "state": "Active"}
        self.overlaps.end(list(born), list(launched))
        return self.found

    def _expect(self, holds: object, what: str) -> None:
        self.found += [] if holds else [what]


def test_more_than_a_policy_lets_wait_or_run_is_seen() -> None:
    rows = Open(overlap="queue_one")
    assert rows.command("a", "b") == [], "a batch that found the slot free"
    assert rows.command("c"), "one waits already"
    rows = Open(overlap="queue_all", queue_limit=2)
    assert rows.command("a", launched=("a",)) == rows.command("b") == rows.command("c") == []
    assert rows.command("d", "e")
    rows = Open(overlap="skip")
    assert rows.command("a") == []
    assert rows.command("b")
    rows = Open(overlap="allow", max_concurrent=2)
    assert rows.command("a", "b", beside=1, launched=("a", "b")) == []
    assert rows.command("c", beside=1)
    assert Open(overlap="skip").command("a", beside=1), "nobody goes beside under skip"


def test_a_launch_beside_what_an_earlier_policy_let_run_is_seen() -> None:
    rows = Open(overlap="allow", max_concurrent=2)
    rows.command("a", beside=1, launched=("a",))
    rows.define(2, overlap="queue_one")
    assert rows.command("b") == []
    assert rows.command(launched=("b",))
    rows.define(3, overlap="allow", max_concurrent=3)
    assert rows.command(launched=("b",)) == []
    rows.schedules["s"]["slot_run_id"] = "a"
    assert rows.command(), "a run beside holds the slot"
