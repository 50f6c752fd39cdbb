"""Cases C26 and C28: jitter moves starts alone, the same on every voter, and never into the next occurrence."""

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import BadExpression, Timing, next_run
from runner.calendar.jitter import check_jitter, start_ms
from runner.checkpoint.ops import Cron, Every

ONE, OTHER = "019ad000-0000-7000-8000-000000000001", "019ad000-0000-7000-8000-000000000002"
HOUR = 3_600_000


def starts(
    schedule_id: str, timing: Timing, longest_ms: int, count: int, window_ms: int = HOUR
) -> list[tuple[int, int]]:
    """Return the planned and the real instant of each of the first occurrences; each from the nominal one before."""
    found, at = [], next_run(timing, 0)
    while len(found) < count:
        assert at is not None
        after = next_run(timing, at.at_ms)
        assert after is not None
        start = start_ms(schedule_id, at.at_ms, longest_ms, next_ms=after.at_ms, window_ms=window_ms)
        found.append((at.at_ms, start))
        at = after
    return found


def test_c26_a_thousand_hourly_occurrences_start_once_each_within_their_jitter() -> None:
    found = starts(ONE, Timing(Cron("0 * * * *"), "UTC"), 120_000, 1_000)
    assert [planned for planned, _ in found] == [HOUR * each for each in range(1, 1_001)]
    assert all(0 <= start - planned <= 120_000 for planned, start in found)
    assert len({start for _, start in found}) == 1_000
    assert max(start - planned for planned, start in found) > 110_000, "it uses the length that it was given"


def test_c28_no_drift_and_each_schedule_its_own_offsets_whoever_asks() -> None:
    minutely = Timing(Every(60), "UTC")
    one, other = starts(ONE, minutely, 20_000, 1_000), starts(OTHER, minutely, 20_000, 1_000)
    assert all(0 <= start - planned <= 20_000 for planned, start in one + other)
    assert sum(a == b for a, b in zip(one, other, strict=True)) < 5
    assert one == starts(ONE, minutely, 20_000, 1_000), "another voter, another process, the same answer"
    mean = sum(start - planned for planned, start in one) / 1_000
    assert 9_000 < mean < 11_000, "spread over the whole length"


def test_the_offset_is_what_the_page_says() -> None:
    text = f"jitter/{ONE}/2026-12-25T09:00:00Z"
    drawn = int(hashlib.sha256(text.encode()).hexdigest(), 16) % 600_001
    assert start_ms(ONE, 1_798_189_200_000, 600_000, next_ms=None, window_ms=HOUR) == 1_798_189_200_000 + drawn


@settings(deadline=None)
@given(
    st.integers(0, 4_102_444_800_000),
    st.integers(0, 86_400_000),
    st.one_of(st.none(), st.integers(1, 2 * 86_400_000)),
    st.integers(0, 86_400_000),
)
def test_never_before_its_instant_nor_past_any_edge(
    planned_ms: int, longest_ms: int, until_next_ms: int | None, window_ms: int
) -> None:
    next_ms = None if until_next_ms is None else planned_ms + until_next_ms
    start = start_ms(ONE, planned_ms, longest_ms, next_ms=next_ms, window_ms=window_ms)
    assert planned_ms <= start <= planned_ms + min(longest_ms, window_ms)
    assert next_ms is None or start < next_ms


def test_occurrences_keep_their_order_where_the_jitter_is_longer_than_the_interval() -> None:
    found = starts(ONE, Timing(Every(1), "UTC"), 60_000, 300)
    assert all(before[1] < after[0] for before, after in pairwise(found))


def test_no_jitter_is_none() -> None:
    assert start_ms(ONE, HOUR, 0, next_ms=None, window_ms=HOUR) == HOUR


@pytest.mark.parametrize("longest_ms", [-1, 86_400_001])
def test_a_length_has_bounds(longest_ms: int) -> None:
    with pytest.raises(BadExpression, match="write 0 s to 24 h") as caught:
        check_jitter(longest_ms)
    assert caught.value.key == "jitter"
