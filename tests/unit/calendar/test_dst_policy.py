"""What a schedule may want done with a reading that is jumped over or comes twice, each choice by example."""

from datetime import UTC, datetime
from itertools import islice, takewhile

import pytest

from runner.calendar import BadExpression, Timing, next_run, occurrences
from runner.calendar.dst import DstPolicy, dst_policy
from runner.checkpoint.ops import Cron, Every

SPRING = ("2026-03-28T12:00Z", "2026-03-30T12:00Z")  # Berlin jumps from 02:00 to 03:00 on the 29th, 01:00Z
AUTUMN = ("2026-10-24T12:00Z", "2026-10-26T12:00Z")  # Berlin shows 02:00 to 03:00 twice on the 25th, from 00:00Z


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def told(expression: str, policy: DstPolicy, span: tuple[str, str], zone: str = "Europe/Berlin") -> list[str]:
    timing = Timing(Cron(expression), zone, policy=policy)
    walked = takewhile(lambda each: each.at_ms < ms(span[1]), occurrences(timing, ms(span[0])))
    return [
        datetime.fromtimestamp(each.at_ms / 1000, UTC).strftime("%dT%H:%M:%S").removesuffix(":00")
        + (f" {each.rule}" if each.rule else "")
        + (f" skipped {each.skipped}" if each.skipped else "")
        for each in walked
    ]


@pytest.mark.parametrize(
    ("expression", "gap", "expected"),
    [
        ("30 2 * * *", "next", ["29T01:00 gap", "30T00:30"]),
        ("30 2 * * *", "skip", ["29T01:00 gap skipped dst_gap", "30T00:30"]),
        ("0,20,40 2 * * *", "next", ["29T01:00 gap", "30T00:00", "30T00:20", "30T00:40"]),  # many lost, one instant
        ("0,20,40 2 * * *", "skip", ["29T01:00 gap skipped dst_gap", "30T00:00", "30T00:20", "30T00:40"]),
        # 03:00 has a reading of its own, and one instant is one occurrence.
        ("0 2,3 * * *", "next", ["29T01:00 gap", "30T00:00", "30T01:00"]),
        ("0 2,3 * * *", "skip", ["29T01:00", "30T00:00", "30T01:00"]),
        ("30 2,3 * * *", "skip", ["29T01:00 gap skipped dst_gap", "29T01:30", "30T00:30", "30T01:30"]),
        ("* 30 2 29 * *", "skip", ["29T01:00 gap skipped dst_gap"]),  # sixty lost seconds of a fixed-time job
        ("*/30 2 * * *", "skip", ["30T00:00", "30T00:30"]),  # wildcard: nothing was planned, so nothing is skipped
        ("30 4 * * *", "skip", ["29T02:30", "30T02:30"]),
    ],
)
def test_a_reading_that_is_jumped_over(expression: str, gap: str, expected: list[str]) -> None:
    assert told(expression, dst_policy(gap, "first"), SPRING) == expected


@pytest.mark.parametrize(
    ("expression", "fold", "expected"),
    [
        ("30 2 * * *", "first", ["25T00:30 fold", "26T01:30"]),
        ("30 2 * * *", "last", ["25T01:30 fold", "26T01:30"]),
        ("30 2 * * *", "both", ["25T00:30 fold", "25T01:30 fold", "26T01:30"]),
        # The pass that is left out is the same reading, not another occurrence: it leaves no skip.
        ("0 1,2,3 * * *", "last", ["24T23:00", "25T01:00 fold", "25T02:00", "26T00:00", "26T01:00", "26T02:00"]),
        (
            "*/30 2 * * *",
            "last",
            ["25T00:00 fold", "25T00:30 fold", "25T01:00 fold", "25T01:30 fold", "26T01:00", "26T01:30"],
        ),
        ("15 30 2 25 * *", "last", ["25T01:30:15 fold"]),
    ],
)
def test_a_reading_that_comes_twice(expression: str, fold: str, expected: list[str]) -> None:
    assert told(expression, dst_policy("next", fold), AUTUMN) == expected


def test_the_last_pass_is_found_across_midnight_and_from_anywhere() -> None:
    span = ("2010-11-06T12:00Z", "2010-11-08T02:00Z")  # St John's: 00:01 of the 7th is 23:01 of the 6th again
    assert told("30 23 * * *", dst_policy("next", "last"), span, "America/St_Johns") == ["07T03:00 fold"]
    timing = Timing(Cron("30 23 * * *"), "America/St_Johns", policy=dst_policy("next", "last"))
    for after in ("2010-11-07T01:59Z", "2010-11-07T02:00Z", "2010-11-07T02:31Z", "2010-11-07T02:59:59Z"):
        found = next_run(timing, ms(after))
        assert found is not None
        assert found.at_ms == ms("2010-11-07T03:00Z"), after


@pytest.mark.parametrize("fold", ["first", "last", "both"])
def test_where_one_asks_from_makes_no_difference(fold: str) -> None:
    """Whole days are looked at from where one asks; their edges fall everywhere about the change."""
    timing = Timing(Cron("10,50 2 * * *"), "Europe/Berlin", policy=dst_policy("next", fold))
    asked = range(ms("2026-10-24T01:05Z"), ms("2026-10-26T00:00Z"), 13 * 60_000)
    whole = [each.at_ms for each in islice(occurrences(timing, ms("2026-10-20T12:00Z")), 20)]
    for after_ms in asked:
        found = next_run(timing, after_ms)
        assert found is not None
        assert found.at_ms == next(at for at in whole if at > after_ms)


def test_a_jump_of_three_hours_is_a_correction_that_neither_makes_up_nor_skips() -> None:
    span = ("2011-12-29T20:00Z", "2011-12-31T20:00Z")  # Apia left out the whole 30 December
    for gap in ("next", "skip"):
        assert told("30 9 * * *", dst_policy(gap, "first"), span, "Pacific/Apia") == ["30T19:30", "31T19:30"]


def test_elapsed_time_knows_no_policy() -> None:
    timing = Timing(Every(3_600), "Europe/Berlin", ms("2026-03-28T00:00Z"), policy=dst_policy("skip", "last"))
    walked = list(takewhile(lambda each: each.at_ms < ms(SPRING[1]), occurrences(timing, ms(SPRING[0]))))
    assert len(walked) == 47
    assert {(each.rule, each.skipped) for each in walked} == {(None, None)}


@pytest.mark.parametrize(
    ("gap", "fold", "key", "words"),
    [
        ("later", "first", "dst_gap", "'later' is not a policy; write next or skip"),
        ("next", "second", "dst_fold", "'second' is not a policy; write first, last, both"),
    ],
)
def test_other_words_are_refused(gap: str, fold: str, key: str, words: str) -> None:
    with pytest.raises(BadExpression, match=words) as caught:
        dst_policy(gap, fold)
    assert caught.value.key == key
