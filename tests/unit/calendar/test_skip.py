"""Instants that become no run, whatever policy says: all of them, as one range, each once."""

import pytest

from runner.calendar import plan, skip
from runner.calendar.planning import MAX_COUNTED
from runner.checkpoint.ops import Cron, Every, Missed

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


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


def test_a_cron_that_fired_often_is_taken_in_bounded_steps() -> None:
    trigger = Cron("* * * * *")
    until_ms = (MAX_COUNTED + 10) * MINUTE_MS
    first = skip(trigger, "UTC", 0, 0, until_ms, "restored")
    assert (first.missed[0].count, first.until_ms) == (MAX_COUNTED, MAX_COUNTED * MINUTE_MS)
    rest = skip(trigger, "UTC", 0, first.until_ms, until_ms, "restored")
    assert (rest.missed[0].first_ms, rest.missed[0].count, rest.until_ms) == (first.until_ms + MINUTE_MS, 10, until_ms)


@pytest.mark.parametrize("trigger", [Every(60), Cron("* * * * *")])
def test_where_nothing_fell_due_the_watermark_moves_alone(trigger: Cron | Every) -> None:
    assert skip(trigger, "UTC", 0, 1_000, 59_000, "restored").missed == ()
    assert skip(trigger, "UTC", 0, 1_000, 59_000, "restored").until_ms == 59_000
    assert skip(trigger, "UTC", 0, 59_000, 1_000, "restored").until_ms == 59_000
