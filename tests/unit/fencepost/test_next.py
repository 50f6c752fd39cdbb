import pytest

from fencepost.faults import Mistake
from fencepost.next import explained, following, instant_ms, timing

AFTER = instant_ms("2026-03-28T00:00:00Z", "--after")


def test_instants_with_their_local_time_and_the_rule_that_applied() -> None:
    assert following(timing("30 2 * * *", "Europe/Berlin"), AFTER, 3) == [
        {"at": "2026-03-28T01:30:00Z", "local": "2026-03-28T02:30:00+01:00", "rule": None},
        {"at": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00", "rule": "gap"},
        {"at": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00+02:00", "rule": None},
    ]


def test_the_instant_asked_after_is_not_among_them() -> None:
    assert following(timing("0 0 * * *", "UTC"), AFTER, 1)[0]["at"] == "2026-03-29T00:00:00Z"
    assert following(timing("0 0 * * *", "UTC"), AFTER - 1, 1)[0]["at"] == "2026-03-28T00:00:00Z"


@pytest.mark.parametrize(
    ("expression", "zone", "words"),
    [
        ("* * * *", "UTC", "4 fields"),
        ("@reboot", "UTC", "@reboot"),
        ("0 0 30 2 *", "UTC", "30"),
        ("0 0 * * *", "Mars", "Mars"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(expression: str, zone: str, words: str) -> None:
    with pytest.raises(Mistake, match=words) as caught:
        timing(expression, zone)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00.250+01:00", 250),
        ("1970-01-02", 86_400_000),
        ("1970-01-01 00:00:01", 1_000),
    ],
)
def test_an_instant_is_utc_unless_it_says_otherwise(text: str, right: int) -> None:
    assert instant_ms(text, "--after") == right


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-02-30", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "\x1b"],
)
def test_no_instant(text: str) -> None:
    with pytest.raises(Mistake, match="is not an instant") as caught:
        instant_ms(text, "--after")
    assert str(caught.value).isprintable()


def test_what_is_skipped_is_explained_and_otherwise_left_out() -> None:
    when = timing("30 2 * * *", "Europe/Berlin", dst_gap="skip", exclude=["2026-03-31"])
    told = [(row["at"], row["rule"], row["skipped"], row["because"]) for row in explained(when, AFTER, 4)]
    assert told == [
        ("2026-03-28T01:30:00Z", None, None, None),
        (
            "2026-03-29T01:00:00Z",
            "gap",
            "dst_gap",
            "the clock jumps from 2026-03-29 02:00 to 2026-03-29 03:00; what falls in between is skipped here",
        ),
        ("2026-03-30T00:30:00Z", None, None, None),
        ("2026-03-31T00:30:00Z", "excluded", "excluded", "excluded from 2026-03-31 00:00 until 2026-04-01 00:00"),
    ]
    assert [row["at"] for row in following(when, AFTER, 3)] == [
        "2026-03-28T01:30:00Z",
        "2026-03-30T00:30:00Z",
        "2026-04-01T00:30:00Z",
    ]


def test_which_pass_of_a_repeated_reading_is_told() -> None:
    when = timing("30 2 25 10 *", "Europe/Berlin", dst_fold="both")
    assert [row["because"] for row in explained(when, AFTER, 2)] == [
        "the clock shows 2026-10-25 02:30 twice; this is the first time",
        "the clock shows 2026-10-25 02:30 twice; this is the second time",
    ]


def test_an_exclusion_that_cannot_be_meant_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="did you mean fri"):
        timing("0 0 * * *", "UTC", exclude=["mon-fir"])


def test_a_schedule_of_which_nothing_runs_is_a_mistake_that_explain_shows() -> None:
    when = timing("0 23 * * *", "UTC", exclude=["mon-sun 22:00-06:00"])
    with pytest.raises(Mistake, match="nothing would run"):
        following(when, AFTER, 1)
    assert [row["skipped"] for row in explained(when, AFTER, 2)] == ["excluded", "excluded"]
