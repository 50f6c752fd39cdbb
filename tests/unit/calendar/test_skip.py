"""Instants that become no run, whatever policy says: all of them, as one range, each once."""

import pytest

from runner.calendar import Plan, Timing
from runner.calendar import plan as plan_of
from runner.calendar import skip as skip_of
from runner.calendar.exclusions import exclusions_of
from runner.calendar.planning import LONGEST_LOOK_MS, MAX_COUNTED, MAX_RANGES, Unrun
from runner.checkpoint.ops import AnyOf, CatchUp, Cron, Every, Missed, TriggerSpec
from tests.unit.calendar.test_plan import plan

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


def skip(trigger: TriggerSpec, zone: str, anchor_ms: int, watermark_ms: int, until_ms: int, reason: Unrun) -> Plan:
    return skip_of(Timing(trigger, zone, anchor_ms), watermark_ms, until_ms, reason)


def test_every_instant_of_an_interval_is_counted_without_walking_it() -> None:
    found = skip(Every(1), "UTC", 0, 10_000, 30 * 24 * HOUR_MS, "restored")
    assert found.until_ms == 30 * 24 * HOUR_MS
    assert found.missed == (Missed(11_000, 30 * 24 * HOUR_MS, 30 * 24 * 3_600 - 10, "restored"),)
    assert found.due == ()


def test_the_same_instants_as_plan_sees_and_none_twice() -> None:
    trigger = Cron("*/7 * * * *")
    planned = plan(trigger, "UTC", 0, 0, 10 * HOUR_MS)
    instants = sum(missed.count for missed in planned.missed) + len(planned.due)
    found = skip(trigger, "UTC", 0, 0, 10 * HOUR_MS, "frozen")
    (missed,) = found.missed
    assert (missed.count, missed.reason, found.until_ms) == (instants, "frozen", 10 * HOUR_MS)
    after = plan(trigger, "UTC", 0, found.until_ms, 10 * HOUR_MS + 7 * MINUTE_MS)
    assert missed.last_ms < after.due[0]


def test_what_has_to_be_walked_over_is_taken_in_bounded_steps() -> None:
    union = AnyOf((Cron("* * * * *"), Cron("*/2 * * * *")))
    until_ms = (MAX_COUNTED + 10) * MINUTE_MS
    first = skip(union, "UTC", 0, 0, until_ms, "restored")
    assert (first.missed[0].count, first.until_ms) == (MAX_COUNTED, MAX_COUNTED * MINUTE_MS)
    rest = skip(union, "UTC", 0, first.until_ms, until_ms, "restored")
    assert (rest.missed[0].first_ms, rest.missed[0].count, rest.until_ms) == (first.until_ms + MINUTE_MS, 10, until_ms)


def test_years_are_counted_in_bounded_steps() -> None:
    first = skip(Cron("* * * * *"), "UTC", 0, 0, 3 * LONGEST_LOOK_MS, "restored")
    assert (first.until_ms, first.missed[0].count) == (LONGEST_LOOK_MS, LONGEST_LOOK_MS // MINUTE_MS)


@pytest.mark.parametrize("trigger", [Every(60), Cron("* * * * *")])
def test_where_nothing_fell_due_the_watermark_moves_alone(trigger: Cron | Every) -> None:
    assert skip(trigger, "UTC", 0, 1_000, 59_000, "restored").missed == ()
    assert skip(trigger, "UTC", 0, 1_000, 59_000, "restored").until_ms == 59_000
    assert skip(trigger, "UTC", 0, 59_000, 1_000, "restored").until_ms == 59_000


def test_skips_of_many_reasons_in_turn_are_taken_in_bounded_steps() -> None:
    odd_hours = exclusions_of(tuple(f"mon-sun {hour:02d}:00-{hour:02d}:30" for hour in range(1, 24, 2)))
    timing = Timing(Cron("0 * * * *"), "UTC", exclusions=odd_hours)
    watermark_ms, ranges = 0, []
    while watermark_ms < 60 * 24 * HOUR_MS:
        found = plan_of(timing, CatchUp(), watermark_ms, 70 * 24 * HOUR_MS)
        assert 0 < len(found.missed) <= MAX_RANGES
        watermark_ms, ranges = found.until_ms, [*ranges, *found.missed]
        if len(ranges) >= 60 * 24:
            break
    assert [each.first_ms for each in ranges[: 60 * 24]] == [hour * HOUR_MS for hour in range(1, 60 * 24 + 1)]
    assert {each.reason for each in ranges} == {"excluded", "missed_window"}
