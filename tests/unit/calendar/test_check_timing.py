"""What of a schedule's timing is refused: the field, the value and what would be right, never a loop or a traceback."""

from datetime import datetime

import pytest

from runner.calendar import BadExpression, Timing, check_timing
from runner.calendar.dst import DstPolicy
from runner.calendar.exclusions import exclusions_of
from runner.checkpoint.ops import AnyOf, At, Cron, Every, TriggerSpec


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


NOON = ms("2026-01-10T12:00:00Z")
HOUR = 3_600_000
DAILY = Cron("0 9 * * *")
HUNDREDS = tuple(NOON + HOUR * place for place in range(1, 502))


@pytest.mark.parametrize(
    ("trigger", "key", "words"),
    [
        (At(()), "at", "at names 0 instants; write 1 to 1000"),
        (At(tuple(range(1_001))), "at", "at names 1001 instants; write 1 to 1000"),
        (At((NOON + 2, NOON + 1)), "at", f"at {NOON + 1} ms comes after {NOON + 2} ms; write instants in order"),
        (At((NOON, NOON)), "at", "each once"),
        (At((-1,)), "at", "at -1 ms lies outside the years 1970 to 9995"),
        (AnyOf((DAILY,)), "triggers", "triggers has 1 parts; write 2 to 16"),
        (AnyOf((DAILY,) * 17), "triggers", "triggers has 17 parts; write 2 to 16"),
        (AnyOf((At(HUNDREDS), At(HUNDREDS))), "at", "at names 1002 instants in 2 triggers; at most 1000"),
        (AnyOf((DAILY, Cron("0 0 31 4 *"))), "cron", "never comes"),
        (AnyOf((DAILY, Every(0))), "every", "every 0 s is out of range; write 1 s to 3650 days"),
        (AnyOf((DAILY, At((10**18,)))), "at", "lies outside the years"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_would_be_right(trigger: TriggerSpec, key: str, words: str) -> None:
    with pytest.raises(BadExpression) as refused:
        check_timing(Timing(trigger, "UTC"), NOON)
    assert (refused.value.key, words in str(refused.value)) == (key, True), refused.value


@pytest.mark.parametrize(
    ("bounds", "key", "words"),
    [
        (
            (NOON + 2, NOON + 1),
            "end",
            "end 2026-01-10T12:00:00.001+00:00 is before start 2026-01-10T12:00:00.002+00:00",
        ),
        ((10**18, None), "start", "start 1000000000000000000 ms lies outside the years 1970 to 9995"),
        ((None, -5), "end", "end -5 ms lies outside the years 1970 to 9995"),
        ((None, NOON), "end", "nothing is planned within end 2026-01-10T12:00:00+00:00; move end"),
        ((NOON, NOON + 20 * HOUR), "end", "within start 2026-01-10T12:00:00+00:00 and end 2026-01-11T08:00:00+00:00"),
    ],
)
def test_bounds_that_leave_nothing_are_refused(bounds: tuple[int | None, int | None], key: str, words: str) -> None:
    with pytest.raises(BadExpression) as refused:
        check_timing(Timing(DAILY, "UTC", start_ms=bounds[0], end_ms=bounds[1]), NOON)
    assert (refused.value.key, words in str(refused.value)) == (key, True), refused.value


def test_a_start_after_the_last_instant_names_the_start() -> None:
    with pytest.raises(BadExpression, match="move start") as refused:
        check_timing(Timing(At((NOON + HOUR,)), "UTC", start_ms=NOON + 2 * HOUR), NOON)
    assert refused.value.key == "start"


def test_bounds_that_hold_one_instant_are_enough_at_either_end() -> None:
    nine = ms("2026-01-11T09:00:00Z")
    check_timing(Timing(DAILY, "UTC", start_ms=nine, end_ms=nine), NOON)
    for start_ms, end_ms in ((nine + 1, nine + HOUR), (NOON, nine - 1)):
        with pytest.raises(BadExpression, match="nothing would run"):
            check_timing(Timing(DAILY, "UTC", start_ms=start_ms, end_ms=end_ms), NOON)


def test_the_most_that_may_be_written_is_taken() -> None:
    check_timing(Timing(AnyOf((*(DAILY,) * 14, At(HUNDREDS[:500]), At(HUNDREDS[1:501]))), "UTC"), NOON)
    check_timing(Timing(At(tuple(range(NOON, NOON + 1_000))), "UTC"), NOON)


def test_an_end_before_which_all_is_skipped_leaves_nothing() -> None:
    only = Timing(Cron("30 2 29 3 *"), "Europe/Berlin", policy=DstPolicy(gap="skip"), end_ms=ms("2026-03-30T00:00:00Z"))
    with pytest.raises(BadExpression, match="dst_gap"):
        check_timing(only, NOON)
    days = exclusions_of(("2026-01-10..2026-03-01",))
    with pytest.raises(BadExpression, match="exclude"):
        check_timing(Timing(Every(60), "UTC", NOON, exclusions=days, end_ms=ms("2026-03-01T23:59:59Z")), NOON)
