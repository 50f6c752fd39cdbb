"""The judges of the simulation see what they are there for: each is shown a wrong history, and a right one."""

import sqlite3
from typing import Any

from tests.linearizability.checker import check
from tests.linearizability.history import Done, Operation, Unknown
from tests.simulation.product.instants import Instants
from tests.simulation.product.linear import Advance, Ask, Fence, Life, Permit, Seen, Standing, Told


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
