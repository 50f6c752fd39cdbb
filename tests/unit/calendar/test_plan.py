from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import Plan, Timing
from runner.calendar import plan as plan_of
from runner.calendar.exclusions import exclusions_of
from runner.checkpoint.ops import AnyOf, At, CatchUp, Cron, Every, Missed, TriggerSpec
from tests.unit.calendar.asking import next_after

HOURLY = CatchUp()
MINUTELY = Cron("* * * * *")
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def missed(first_ms: int, last_ms: int, count: int) -> Missed:
    return Missed(first_ms, last_ms, count, "missed_window")


def plan(
    trigger: TriggerSpec, zone: str, anchor_ms: int, watermark_ms: int, now_ms: int, catch_up: CatchUp = HOURLY
) -> Plan:
    return plan_of(Timing(trigger, zone, anchor_ms), catch_up, watermark_ms, now_ms)


NOON = ms("2026-01-10T12:00:00Z")


def test_nothing_is_due_between_two_instants() -> None:
    assert plan(MINUTELY, "UTC", 0, NOON, NOON + MINUTE - 1) == Plan(NOON + MINUTE - 1, (), ())
    assert plan(Every(10), "UTC", NOON, NOON, NOON + 9_999) == Plan(NOON + 9_999, (), ())


def test_an_instant_is_due_at_its_millisecond_and_not_again() -> None:
    for trigger in (MINUTELY, Every(60)):
        assert plan(trigger, "UTC", NOON, NOON, NOON + MINUTE).due == (NOON + MINUTE,)
        assert plan(trigger, "UTC", NOON, NOON + MINUTE, NOON + MINUTE).due == ()


@pytest.mark.parametrize("trigger", [MINUTELY, Every(60)])
def test_sixty_seconds_late_is_lateness_and_a_millisecond_more_is_catch_up(trigger: Cron | Every) -> None:
    on_time = plan(trigger, "UTC", NOON, NOON, NOON + 2 * MINUTE)
    assert on_time == Plan(NOON + 2 * MINUTE, (), (NOON + MINUTE, NOON + 2 * MINUTE))
    late = plan(trigger, "UTC", NOON, NOON, NOON + 2 * MINUTE + 1)
    assert late == Plan(NOON + 2 * MINUTE + 1, (missed(NOON + MINUTE, NOON + MINUTE, 1),), (NOON + 2 * MINUTE,))


def test_a_lone_late_instant_runs_within_the_window_of_one_hour() -> None:
    hourly = Cron("0 13 * * *")
    due_ms = NOON + HOUR
    assert plan(hourly, "UTC", 0, NOON, due_ms + HOUR) == Plan(due_ms + HOUR, (), (due_ms,), 1)
    assert plan(hourly, "UTC", 0, NOON, due_ms + HOUR + 1) == Plan(due_ms + HOUR + 1, (missed(due_ms, due_ms, 1),), ())


def test_a_one_shot_is_due_once_and_within_its_window() -> None:
    once = At((NOON + HOUR,))
    assert next_after(once, "UTC", 0, NOON).at_ms == NOON + HOUR
    assert next_after(once, "UTC", 0, NOON + HOUR) is None
    assert plan(once, "UTC", 0, NOON, NOON + HOUR - 1) == Plan(NOON + HOUR - 1, (), ())
    assert plan(once, "UTC", 0, NOON, NOON + 2 * HOUR) == Plan(NOON + 2 * HOUR, (), (NOON + HOUR,), 1)
    late_ms = NOON + 2 * HOUR + 1
    assert plan(once, "UTC", 0, NOON, late_ms) == Plan(late_ms, (missed(NOON + HOUR, NOON + HOUR, 1),), ())
    assert plan(once, "UTC", 0, NOON + HOUR, late_ms) == Plan(late_ms, (), ())


def test_of_many_late_instants_only_the_latest_runs() -> None:
    ten_minutely = Cron("*/10 * * * *")
    now_ms = NOON + 45 * MINUTE
    assert plan(ten_minutely, "UTC", 0, NOON, now_ms) == Plan(
        now_ms, (missed(NOON + 10 * MINUTE, NOON + 30 * MINUTE, 3),), (NOON + 40 * MINUTE,), 1
    )


def test_c21_what_a_downtime_leaves_runs_as_the_policy_says() -> None:
    """Minutely, down from 14:57 to 15:00: four instants, all more than a minute late when they are seen."""
    down_ms = ms("2026-01-10T14:56:00Z")
    now_ms = ms("2026-01-10T15:01:30Z")
    four = tuple(down_ms + n * MINUTE for n in (1, 2, 3, 4))
    every = Timing(MINUTELY, "UTC", end_ms=four[-1])
    assert plan_of(every, CatchUp(policy="all"), down_ms, now_ms) == Plan(now_ms, (), four, 4)
    latest = plan_of(every, CatchUp(policy="latest"), down_ms, now_ms)
    assert latest == Plan(now_ms, (missed(four[0], four[2], 3),), four[3:], 1)
    assert plan_of(every, CatchUp(policy="none"), down_ms, now_ms) == Plan(now_ms, (missed(four[0], four[3], 4),), ())
    newest = plan_of(every, CatchUp(policy="all", limit=2), down_ms, now_ms)
    assert newest == Plan(now_ms, (missed(four[0], four[1], 2),), four[2:], 2)
    within = plan_of(every, CatchUp(window_s=150, policy="all"), down_ms, now_ms)
    assert within == Plan(now_ms, (missed(four[0], four[1], 2),), four[2:], 2)


def test_the_newest_are_counted_across_what_is_excluded() -> None:
    """Every ten minutes but not from 12:20 to 12:40: of 12:10, 12:40 and 12:50 two run; 12:20 and 12:30 say why not."""
    ten = Timing(Cron("*/10 * * * *"), "UTC", exclusions=exclusions_of(("sat 12:20-12:40",)))
    now_ms = NOON + 55 * MINUTE
    found = plan_of(ten, CatchUp(policy="all", limit=2), NOON, now_ms)
    excluded = Missed(NOON + 20 * MINUTE, NOON + 30 * MINUTE, 2, "excluded")
    assert found.missed == (missed(NOON + 10 * MINUTE, NOON + 10 * MINUTE, 1), excluded)
    assert (found.due, found.caught_up) == ((NOON + 40 * MINUTE, NOON + 50 * MINUTE), 2)
    three = plan_of(ten, CatchUp(policy="all", limit=3), NOON, now_ms)
    assert (three.missed, three.caught_up) == ((excluded,), 3)
    one = plan_of(ten, CatchUp(policy="all", limit=1), NOON, now_ms)
    assert one.due == (NOON + 50 * MINUTE,)
    assert one.missed == (found.missed[0], excluded, missed(NOON + 40 * MINUTE, NOON + 40 * MINUTE, 1))


def test_what_is_newer_than_one_call_can_count_takes_the_place_of_what_it_counted() -> None:
    """A union is walked over: of two weeks of minutes within the window, only the last ones run."""
    union = Timing(AnyOf((MINUTELY, Cron("*/2 * * * *"))), "UTC")
    now_ms = NOON + 14 * DAY
    for catch_up, kept in ((CatchUp(15 * 86_400, "latest"), 0), (CatchUp(15 * 86_400, "all", 10), 10)):
        watermark_ms, due, counted, calls = NOON, list[int](), 0, 0
        while watermark_ms < now_ms:
            found = plan_of(union, catch_up, watermark_ms, now_ms)
            assert not due
            due, watermark_ms, calls = list(found.due), found.until_ms, calls + 1
            counted += sum(each.count for each in found.missed)
        assert due == [now_ms - n * MINUTE for n in range(kept + 1, -1, -1)]
        assert (counted, calls) == (14 * 1440 - kept - 2, 5)


def test_c19_an_edit_starts_nothing_that_was_due_before_it() -> None:
    edited_ms = ms("2026-01-11T09:00:00Z")
    assert plan(Cron("0 5 * * *"), "UTC", 0, edited_ms, ms("2026-01-12T04:59:59Z")).due == ()
    assert plan(Cron("0 5 * * *"), "UTC", 0, edited_ms, ms("2026-01-12T05:00:00Z")).due == (ms("2026-01-12T05:00:00Z"),)


def test_c37_a_takeover_just_after_the_instant_still_runs_it() -> None:
    instant_ms = ms("2026-01-12T10:00:00Z")
    for now_ms in (instant_ms, instant_ms + 1, instant_ms + 740):
        assert plan(Cron("0 10 * * *"), "UTC", 0, instant_ms - 2_600, now_ms).due == (instant_ms,)
    assert plan(Cron("0 10 * * *"), "UTC", 0, instant_ms - 2_600, instant_ms - 1).due == ()


def test_c31_an_interval_does_not_follow_local_midnight_and_cron_does() -> None:
    anchor_ms = ms("2018-11-03T07:00:00Z")
    day = next_after(Every(86_400), "America/Los_Angeles", anchor_ms, ms("2018-11-04T07:00:00Z"))
    midnight = next_after(Cron("0 0 * * *"), "America/Los_Angeles", 0, ms("2018-11-04T07:00:00Z"))
    assert day is not None
    assert midnight is not None
    assert (day.at_ms, day.local) == (ms("2018-11-05T07:00:00Z"), "2018-11-04T23:00:00-08:00")
    assert midnight.at_ms == ms("2018-11-05T08:00:00Z")


def test_a_one_second_schedule_that_was_down_for_thirty_days_is_one_range_and_a_minute_of_runs() -> None:
    now_ms = NOON + 30 * DAY
    found = plan(Every(1), "UTC", NOON, NOON, now_ms)
    assert found.until_ms == now_ms
    assert found.missed == (missed(NOON + 1_000, now_ms - 61_000, 30 * 86_400 - 61),)
    assert found.due == tuple(range(now_ms - 60_000, now_ms + 1, 1_000))


def test_a_clock_that_went_back_plans_nothing() -> None:
    assert plan(Every(1), "UTC", 0, NOON, NOON - HOUR) == Plan(NOON, (), ())
    assert plan(MINUTELY, "UTC", 0, NOON, NOON - HOUR) == Plan(NOON, (), ())


def test_a_long_absence_of_cron_is_counted_in_one_call() -> None:
    now_ms = NOON + 30 * DAY + 5_000
    found = plan(MINUTELY, "UTC", 0, NOON, now_ms)
    assert found.due == (now_ms - 5_000,)
    assert found.missed == (missed(NOON + MINUTE, NOON + 30 * DAY - MINUTE, 30 * 1440 - 1),)
    assert (found.until_ms, found.caught_up) == (now_ms, 0)


TRIGGERS = st.one_of(
    st.integers(1, 7_200).map(Every),
    st.sampled_from([MINUTELY, Cron("*/7 * * * *"), Cron("30 2 * * *"), Cron("0 0 29 2 *")]),
)


@settings(deadline=None)  # how fast this machine is proves nothing
@given(TRIGGERS, st.lists(st.integers(0, 40 * HOUR), min_size=2, max_size=6), st.integers(0, 10**7))
def test_every_planned_instant_is_accounted_for_once_however_often_one_looks(
    trigger: Cron | Every, looks: list[int], anchor_ms: int
) -> None:
    start_ms = ms("2026-03-28T00:00:00Z")
    looks = sorted(start_ms + look for look in looks)
    watermark_ms, ran, skipped = looks[0], [], 0
    for now_ms in looks[1:]:
        found = plan(trigger, "Europe/Berlin", start_ms + anchor_ms, watermark_ms, now_ms)
        order = [at for each in found.missed for at in (each.first_ms, each.last_ms)] + list(found.due)
        assert order == sorted(order)
        assert all(watermark_ms < at <= found.until_ms <= now_ms for at in order)
        assert all(now_ms - at <= HOUR for at in found.due)
        ran += found.due
        skipped += sum(each.count for each in found.missed)
        watermark_ms = found.until_ms
    assert len(ran) == len(set(ran))
    assert len(ran) + skipped == _count(trigger, start_ms + anchor_ms, looks[0], watermark_ms)


def _count(trigger: Cron | Every, anchor_ms: int, after_ms: int, until_ms: int) -> int:
    if isinstance(trigger, Every):
        return sum(
            after_ms < at <= until_ms
            for at in range(anchor_ms + trigger.interval_s * 1000, until_ms + 1, trigger.interval_s * 1000)
        )
    count, planned = 0, next_after(trigger, "Europe/Berlin", anchor_ms, after_ms)
    while planned is not None and planned.at_ms <= until_ms:
        count += 1
        planned = next_after(trigger, "Europe/Berlin", anchor_ms, planned.at_ms)
    return count
