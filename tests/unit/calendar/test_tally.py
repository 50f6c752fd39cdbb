"""Counting must find what walking finds, and must not walk."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import Occurrence, Timing, occurrences, tally
from runner.calendar.dst import DstPolicy
from runner.calendar.exclusions import exclusions_of
from runner.calendar.expression import parse
from runner.calendar.tally import Tally, tallies
from runner.calendar.wall import counted, readings
from runner.checkpoint.ops import At, Cron, Every
from tests.calendar.drawing import POLICIES
from tests.calendar.drawing import expression as drawn

DAY_MS = 86_400_000
EXCLUDED = ["2026-03-28", "2026-10-24..2026-10-25", "sat,sun", "sun 02:00-03:00", "sat 23:00-02:30", "1-5 09:00-17:00"]
PLACES = ["2026-03-29T01:00Z", "2026-10-25T01:00Z", "2026-06-30T12:00Z", "2010-11-07T02:31Z", "2018-11-04T03:00Z"]
PLACES += ["2011-12-30T10:00Z", "2026-04-04T15:00Z", "2026-10-03T15:30Z"]  # Apia left out a day; Lord Howe: half hours


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def walked(timing: Timing, after_ms: int, until_ms: int) -> list[Tally]:
    found = takewhile(lambda each: each.at_ms <= until_ms, occurrences(timing, after_ms))
    groups = [list(group) for _, group in groupby(found, key=lambda each: each.skipped)]
    return [Tally(group[0].at_ms, group[-1].at_ms, len(group), group[0].skipped) for group in groups]


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.integers(0, 2**32).map(lambda seed: Cron(drawn(random.Random(seed)))),
        st.integers(600, 100_000).map(Every),
        st.sampled_from([Cron("*/20 30 1-3 * * *"), At((ms("2026-10-25T01:30Z"),))]),
    ),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe"]),
    st.sampled_from(POLICIES),
    st.lists(st.sampled_from(EXCLUDED), max_size=3),
    st.sampled_from(PLACES),
    st.tuples(st.integers(0, 3 * DAY_MS), st.integers(0, 3 * DAY_MS)),
)
def test_counting_finds_what_walking_finds(
    trigger: Cron | Every | At, zone: str, policy: object, texts: list[str], place: str, reach_ms: tuple[int, int]
) -> None:
    anchor_ms = ms("2010-01-01T00:00Z") + 250
    timing = Timing(trigger, zone, anchor_ms, policy=policy, exclusions=exclusions_of(tuple(texts)))
    after_ms, until_ms = ms(place) - reach_ms[0], ms(place) + reach_ms[1]
    assert list(tallies(timing, after_ms, until_ms)) == walked(timing, after_ms, until_ms)


@pytest.mark.parametrize(
    ("trigger", "texts"),
    [
        (Cron("* * * * * *"), ()),
        (Cron("* * * * * *"), ("sat,sun",)),
        (Cron("0-59 0-59 0-23 * * *"), ()),
        (Every(1), ("sat,sun",)),
        (Every(1), ()),
    ],
)
def test_thirty_days_of_seconds_are_counted_without_a_walk(
    trigger: Cron | Every, texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("walked")

    monkeypatch.setattr(tally, "occurrences", forbidden)
    began = datetime(2026, 11, 1, tzinfo=UTC)
    after_ms, until_ms = (int((began + timedelta(days=days)).timestamp() * 1000) - 1 for days in (0, 30))
    found = list(tallies(Timing(trigger, "UTC", exclusions=exclusions_of(texts)), after_ms, until_ms))
    assert sum(each.count for each in found) == 30 * 86_400
    assert len(found) == (10 if texts else 1)
    assert sum(each.count for each in found if each.skipped) == (9 * 86_400 if texts else 0)


@pytest.mark.parametrize(("month", "left_out"), [(3, 0), (10, 3_600)])
def test_a_fixed_time_job_is_walked_over_only_where_the_clock_is_moved(
    month: int, left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def watched(timing: Timing, after_ms: int) -> Iterator[Occurrence]:
        nonlocal seen
        for each in occurrences(timing, after_ms):
            seen += 1
            yield each

    monkeypatch.setattr(tally, "occurrences", watched)
    after_ms = int(datetime(2026, month, 5, tzinfo=UTC).timestamp() * 1000) - 1
    every_second = Timing(Cron("* 0-59 0-23 * * *"), "Europe/Berlin")
    (found,) = tallies(every_second, after_ms, after_ms + 30 * DAY_MS)
    assert found.count == 30 * 86_400 - left_out
    assert 3_600 <= seen <= 7_210


@settings(deadline=None)
@given(
    st.sampled_from(["*/20 * * * * *", "7,30 */2 1-3 * * *", "59 59 23 L * *", "* * * * *"]),
    st.integers(0, 40 * 86_400),
    st.integers(0, 7_200),
)
def test_readings_are_counted_as_they_are_listed(text: str, from_s: int, length_s: int) -> None:
    listed = list(readings(parse(text), from_s, from_s + length_s))
    expected = (len(listed), listed[0], listed[-1]) if listed else None
    assert counted(parse(text), from_s, from_s + length_s) == expected


@pytest.mark.parametrize("texts", [(), ("sat",)])
def test_intervals_end_at_the_millisecond_and_begin_after_their_anchor(texts: tuple[str, ...]) -> None:
    timing = Timing(Every(1), "UTC", 10_250, exclusions=exclusions_of(texts))
    assert list(tallies(timing, 5_000, 14_249)) == [Tally(11_250, 13_250, 3, None)]
    assert list(tallies(timing, 12_250, 14_250)) == [Tally(13_250, 14_250, 2, None)]


def test_an_empty_time_and_one_beyond_the_calendar_hold_nothing() -> None:
    for trigger in (Cron("* * * * *"), Every(1)):
        timing = Timing(trigger, "UTC", exclusions=exclusions_of(("sat",)))
        assert list(tallies(timing, 5_000, 5_000)) == []
        assert list(tallies(timing, 5_000, 4_000)) == []
        assert list(tallies(timing, 253_399_999_000_000, 253_400_000_000_000)) == []


def test_a_day_that_ends_shortly_before_a_reading_comes_again_counts_its_last_passes() -> None:
    changed_ms = ms("2026-10-25T01:00Z")
    timing = Timing(Cron("0-59 0-23 * * *"), "Europe/Berlin", policy=DstPolicy(fold="last"))
    after_ms, until_ms = changed_ms - DAY_MS - 1_800_001, changed_ms + 7_200_000
    assert list(tallies(timing, after_ms, until_ms)) == walked(timing, after_ms, until_ms)
