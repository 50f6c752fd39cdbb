import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import BadExpression, check_trigger
from runner.calendar.expression import MAX_CHARS, parse
from runner.checkpoint.ops import Cron, Every


@pytest.mark.parametrize(
    ("field", "same"),
    [
        ("*/20 0 * * *", "0,20,40 0 * * *"),
        ("5/25 0 * * *", "5,30,55 0 * * *"),
        ("1-9/4 0 * * *", "1,5,9 0 * * *"),
        ("0 0 * JAN-mar *", "0 0 * 1-3 *"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("0 0 * * 5-7", "0 0 * * fri,sat,sun"),
        ("0 0 * * sun-tue", "0 0 * * 0-2"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("  0\t0 *  * * ", "0 0 * * *"),
    ],
)
def test_two_ways_to_write_one_thing(field: str, same: str) -> None:
    left, right = parse(field), parse(same)
    assert (left.minutes_of_day, left.days, left.months, left.weekdays) == (
        right.minutes_of_day,
        right.days,
        right.months,
        right.weekdays,
    )


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "has 0 fields; write five"),
        ("* * * *", "has 4 fields"),
        ("0 0 0 * * *", "seconds are not supported"),
        ("@hourly", "@daily are not supported"),
        ("61 * * * *", "minute: 61 is out of range; write 0 to 59"),
        ("0 0 * * mon-fir", "did you mean fri?"),
        ("0 0 * janu *", "did you mean jan?"),
        ("0 0 L * *", "L, W and # are not supported"),
        ("0 0 * * 5#2", "L, W and # are not supported"),
        ("9-5 * * * *", "write 5-9"),
        ("*/61 * * * *", "a step is 1 to 60"),
        ("*/ * * * *", "step ''"),
        ("1-2-3 * * * *", "'2-3' is not a value"),
        ("+5 * * * *", "'+5' is not a value"),
        ("1_0 * * * *", "'1_0' is not a value"),
        ("\N{ARABIC-INDIC DIGIT FIVE} * * * *", "no plain ASCII"),
        ("* * * * *\n0 0 * * *", "on one line"),
        ("0 0 31 2,4,6,9,11 *", "never comes"),
        ("1," * MAX_CHARS + "1 * * * *", "characters; 1000 is the most"),
    ],
)
def test_errors_name_the_field_the_value_and_what_is_right(expression: str, words: str) -> None:
    with pytest.raises(BadExpression) as caught:
        parse(expression)
    assert words in str(caught.value)
    assert caught.value.key == "cron"


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("localtime", "not a known IANA zone"),
        ("Factory", "not a known IANA zone"),
        ("", "is empty"),
        ("../UTC", "not a known IANA zone"),
        ("/usr/share/zoneinfo/UTC", "not a known IANA zone"),
        ("UTC\0", "not a known IANA zone"),
        ("zones", "not a known IANA zone"),
    ],
)
def test_zones_are_names_and_never_paths(zone: str, words: str) -> None:
    with pytest.raises(BadExpression) as caught:
        check_trigger(Every(1), zone)
    assert words in str(caught.value)
    assert caught.value.key == "timezone"


@pytest.mark.parametrize("interval_s", [0, -1, 3_650 * 86_400 + 1, 10**30])
def test_intervals_have_bounds(interval_s: int) -> None:
    with pytest.raises(BadExpression) as caught:
        check_trigger(Every(interval_s), "UTC")
    assert caught.value.key == "every"


@settings(deadline=None)  # how fast this machine is proves nothing
@given(st.text(alphabet="0123456789*/-,#LWjanmofri @\t\n\0é", max_size=40), st.text(max_size=20))
def test_any_text_is_accepted_or_refused_and_nothing_else(expression: str, zone: str) -> None:
    try:
        check_trigger(Cron(expression), zone)
    except BadExpression as refused:
        assert str(refused)  # noqa: PT017 - both ways out are right
