"""However seldom an expression comes, one question costs a bounded number of steps; steps are counted, never timed."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import instants, wall
from runner.calendar.expression import parse
from runner.calendar.wall import EPOCH_ORDINAL, SEARCH_DAYS, matching_day
from runner.checkpoint.ops import Cron
from tests.calendar.oracle import Text
from tests.unit.calendar.asking import next_after

NOW_MS = 1_796_049_486_589
MOST_MONTHS = 49 * 12


@settings(max_examples=70, deadline=None)
@given(
    st.sampled_from(
        ["*", "*/2", "1", "29", "31", "30,31", "1-15", "24-31", "5,10", "L", "LW", "L-30", "31W", "1W,L-2"]
    ),
    st.sampled_from(["*", "2", "2,12", "1-6", "*/5", "11"]),
    st.sampled_from(["*", "0", "1-5", "sat,sun", "*/3", "*/7", "5L", "1#5", "sun#1,2"]),
    st.integers(0, 60_000),
)
def test_the_search_by_months_finds_what_a_walk_by_days_finds(
    day: str, month: str, weekday: str, from_day: int
) -> None:
    text = f"0 0 {day} {month} {weekday}"
    try:
        found = matching_day(parse(text), from_day)
    except ValueError:
        found = None
    assert found == next(_walk(Text(text), from_day), None)


def _walk(text: Text, from_day: int) -> Iterator[int]:
    dates = ((day, date.fromordinal(day + EPOCH_ORDINAL)) for day in range(from_day, from_day + SEARCH_DAYS + 1))
    yield from (day for day, each in dates if text.date_matches(each))


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("0 0 29 2 *", "2096-02-29", ["2104-02-29", "2108-02-29"]),
        ("0 0 29 2 *", "2099-03-01", ["2104-02-29"]),
        ("0 0 29 2 */7", "2088-02-29", ["2128-02-29"]),  # a Sunday
        ("0 0 */28 2 5#5", "2096-01-01", ["2104-02-29"]),  # the 29th is the fifth Friday
        ("0 0 29W 2 *", "2096-03-01", ["2104-02-29"]),
        ("0 0 L-28 2 *", "2096-03-01", ["2104-02-01"]),  # only a February of 29 days begins that early
        ("0 0 L 2 *", "2099-03-01", ["2100-02-28", "2101-02-28"]),
    ],
)
def test_leap_days_are_found_across_the_year_that_has_none(text: str, after: str, expected: list[str]) -> None:
    after_s = int(datetime.fromisoformat(after).replace(tzinfo=UTC).timestamp())
    found = instants.instants(parse(text), instants.ZoneInfo("UTC"), after_s)
    assert [datetime.fromtimestamp(next(found).at_s, UTC).date().isoformat() for _ in expected] == expected


@pytest.mark.parametrize(
    ("text", "months"), [("0 0 29 2 */7", 49), ("0 0 31 */11 */7", 2 * 49), ("0 0 29 * */7", MOST_MONTHS)]
)
def test_a_rare_date_costs_a_step_for_each_month_that_could_hold_it(
    text: str, months: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[tuple[int, int]] = []

    def length(year: int, month: int) -> int:
        looked_at.append((year, month))
        return original(year, month)

    original = wall._length
    monkeypatch.setattr(wall, "_length", length)
    assert matching_day(parse(text), 20_000) is not None
    assert 0 < len(looked_at) <= months


@pytest.mark.parametrize("text", ["* 2 31 3 */7", "* 2 25-31 3 */7"])
def test_what_the_clock_always_jumps_over_is_given_up_after_48_years(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last Sunday of March has no 02:xx in Berlin, and a wildcard job is not made up for: it never comes."""
    stretches: list[int] = []

    def cut(zone: instants.ZoneInfo, from_s: int) -> tuple[instants.Stretch, ...]:
        stretches.append(from_s)
        return original(zone, from_s)

    original = instants.stretches
    monkeypatch.setattr(instants, "stretches", cut)
    assert next_after(Cron(text), "Europe/Berlin", 0, NOW_MS) is None
    assert len(stretches) <= 49 * 5, "a few days around each of the 48 dates"
    planned = next_after(Cron(text), "UTC", 0, NOW_MS)
    assert planned is not None


def test_reach_is_counted_from_the_last_instant_not_from_the_question() -> None:
    leap = instants.instants(parse("0 0 29 2 */7"), instants.ZoneInfo("UTC"), 0)
    found = [datetime.fromtimestamp(next(leap).at_s, UTC) for _ in range(10)]
    assert found[-1] - found[0] > timedelta(days=SEARCH_DAYS), "one walk goes on past 48 years"
    assert all((at.month, at.day, at.isoweekday()) == (2, 29, 7) for at in found)
