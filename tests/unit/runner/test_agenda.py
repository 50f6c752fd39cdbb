import itertools

from runner.agenda import INSTANTS_A_DAY, MAX_CHAINED, MAX_WALKED, Aim, aim_of, catch_up, due
from runner.calendar.planning import MAX_COUNTED
from runner.checkpoint.ops import AnyOf, Cron, Every, Missed
from runner.checkpoint.records import Schedule
from tests.unit.runner.rows import MINUTE_MS, NOON_MS, schedule

HOUR_MS = 60 * MINUTE_MS
WALKED = AnyOf((Cron("* * * * *"), Cron("*/2 * * * *")))


def aims(*rows: Schedule) -> dict[str, Aim]:
    return {row.schedule_id: aim_of(row) for row in rows if row.enabled}


def test_only_schedules_whose_instant_was_reached_are_due_the_longest_due_first() -> None:
    rows = [
        schedule("s1", Every(2)),
        schedule("s2", Every(1)),
        schedule("s3", Every(9)),
        schedule("s4", Every(1), enabled=False),
    ]
    aimed = aims(*rows)
    found = due(rows, aimed, NOON_MS + 2_000, 10)
    assert [(op.schedule_id, op.due) for op in found] == [
        ("s2", (NOON_MS + 1_000, NOON_MS + 2_000)),
        ("s1", (NOON_MS + 2_000,)),
    ]
    assert [op.schedule_id for op in due(rows, aimed, NOON_MS + 2_000, 1)] == ["s2"]
    assert due(rows, aimed, NOON_MS + 999, 10) == []


def test_a_plan_names_the_definition_and_the_watermark_it_is_for() -> None:
    (op,) = due([schedule()], aims(schedule()), NOON_MS + 1_500, 10)
    assert (op.schedule_revision, op.after_ms, op.until_ms) == (5, NOON_MS, NOON_MS + 1_500)


def test_many_schedules_that_were_down_for_long_are_planned_over_several_turns() -> None:
    rows = [schedule(f"s{n}", WALKED) for n in range(20)]
    found = due(rows, aims(*rows), NOON_MS + (MAX_WALKED // 4) * MINUTE_MS, 20)
    assert [op.schedule_id for op in found] == ["s0", "s1", "s10", "s11"]
    counted = [schedule(f"s{n}", Cron("* * * * *")) for n in range(20)]
    found = due(counted, aims(*counted), NOON_MS + 99 * 24 * HOUR_MS, 20)
    assert len(found) == -(-MAX_WALKED // (99 * INSTANTS_A_DAY))
    elapsed = [schedule(f"s{n}", Every(1)) for n in range(20)]
    found = due(elapsed, aims(*elapsed), NOON_MS + 100 * HOUR_MS, 20)
    assert len(found) == 20, "an interval's instants are counted without walking them"


def test_a_zone_that_is_gone_stops_one_schedule_and_says_so() -> None:
    row = schedule("s1", Cron("* * * * *"))
    bad = schedule("s2", Cron("* * * * *"), timezone="Mars/Base")
    aimed = aims(row, bad)
    assert aimed["s1"].fault is None
    assert "Mars/Base" in (aimed["s2"].fault or "")
    assert [op.schedule_id for op in due([row, bad], aimed, NOON_MS + MINUTE_MS, 10)] == ["s1"]
    assert catch_up(bad, NOON_MS + MINUTE_MS) == ([], True)


def test_before_an_edit_everything_due_is_put_on_record() -> None:
    ops, reached = catch_up(schedule(trigger=Every(1)), NOON_MS + 3 * HOUR_MS)
    assert reached
    assert [op.until_ms for op in ops] == [NOON_MS + 3 * HOUR_MS]
    assert ops[0].missed[0].count + len(ops[0].due) == 3 * 3_600


def test_an_edit_of_a_disabled_or_up_to_date_schedule_needs_nothing_before_it() -> None:
    assert catch_up(schedule(enabled=False), NOON_MS + HOUR_MS) == ([], True)
    assert catch_up(schedule(), NOON_MS + 999) == ([], True)


def test_a_long_catch_up_is_chained_and_says_when_it_did_not_reach_now() -> None:
    row = schedule(trigger=WALKED)
    few, reached = catch_up(row, NOON_MS + (MAX_COUNTED + 100) * MINUTE_MS)
    assert reached
    assert len(few) == 2
    assert all(left.until_ms == right.after_ms for left, right in itertools.pairwise(few))
    many, reached = catch_up(row, NOON_MS + (MAX_CHAINED + 2) * MAX_COUNTED * MINUTE_MS)
    assert not reached
    assert len(many) == MAX_CHAINED
    assert isinstance(many[0].missed[0], Missed)
