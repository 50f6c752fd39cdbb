import calendar
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import BadExpression, check_trigger
from runner.calendar.dates import kind_index
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
    assert replace(parse(field), wildcard=False) == replace(parse(same), wildcard=False)


def days(expression: str, month: str) -> list[int]:
    """Return the days of a month, written `2026-08`, that an expression names."""
    year, number = (int(part) for part in month.split("-"))
    first = date(year, number, 1)
    length = calendar.monthrange(year, number)[1]
    return list(parse(expression).days[kind_index(length, first.isoweekday() % 7)])


@pytest.mark.parametrize(
    ("day", "weekday", "month", "expected"),
    [
        ("L", "*", "2028-02", [29]),
        ("L", "*", "2026-02", [28]),
        ("L-1", "*", "2026-02", [27]),
        ("L-3", "*", "2026-08", [28]),  # three days before the last one
        ("L-30", "*", "2026-08", [1]),
        ("L-30", "*", "2026-09", []),  # a month of 30 days has no such day
        ("LW", "*", "2026-01", [30]),  # the 31st is a Saturday
        ("LW", "*", "2026-05", [29]),  # the 31st is a Sunday: never 1 June
        ("L-3W", "*", "2026-05", [28]),
        ("L-2W", "*", "2026-05", [29]),
        ("15W", "*", "2026-08", [14]),  # a Saturday: the Friday before
        ("16W", "*", "2026-08", [17]),  # a Sunday: the Monday after
        ("17W", "*", "2026-08", [17]),
        ("1W", "*", "2026-08", [3]),  # Saturday the 1st: never 31 July
        ("1W", "*", "2026-11", [2]),  # Sunday the 1st
        ("31W", "*", "2026-05", [29]),  # Sunday the 31st: never 1 June
        ("31W", "*", "2026-06", []),  # there is no 31 June, and the 30th is not meant
        ("1,L", "*", "2026-08", [1, 31]),
        ("15W,L,3-4", "*", "2026-08", [3, 4, 14, 31]),
        ("lw", "*", "2026-08", [31]),
        ("*", "5L", "2026-06", [26]),
        ("*", "FRIL", "2026-06", [26]),
        ("*", "7L", "2026-05", [31]),
        ("*", "0L", "2026-05", [31]),
        ("*", "1#2", "2026-06", [8]),
        ("*", "Mon#2", "2026-06", [8]),
        ("*", "7#1", "2026-06", [7]),
        ("*", "5#5", "2026-05", [29]),
        ("*", "5#5", "2026-06", []),  # it has four Fridays
        ("*", "5#5,5L", "2026-06", [26]),
        ("*", "1,5L", "2026-06", [1, 8, 15, 22, 26, 29]),
        ("*", "1#1,3#3", "2026-06", [1, 17]),
        ("L", "5", "2026-06", [5, 12, 19, 26, 30]),  # both restricted: either
        ("*/1", "5L", "2026-06", [26]),  # one begins with a star: both
        ("L", "*/2", "2026-06", [30]),  # a Tuesday: 2
        ("L", "*/5", "2026-06", []),
    ],
)
def test_days_that_depend_on_the_month(day: str, weekday: str, month: str, expected: list[int]) -> None:
    assert days(f"0 0 {day} * {weekday}", month) == expected


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" @Daily ", "0 0 * * *"),
    ],
)
def test_a_name_stands_for_five_fields(name: str, same: str) -> None:
    assert parse(name) == parse(same)


def test_six_fields_begin_with_the_second_and_the_second_makes_no_wildcard() -> None:
    assert parse("0 5 4 * * *") == parse("5 4 * * *")
    assert parse("*/20 30 2 * * *").seconds == (0, 20, 40)
    assert not parse("* 30 2 * * *").wildcard
    assert parse("2 * * * * *").wildcard


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "has 0 fields; write five"),
        ("* * * *", "has 4 fields"),
        ("0 0 0 0 * * *", "has 7 fields; write five (minute, hour, day of month, month, day of week), or six"),
        ("60 0 0 * * *", "second: 60 is out of range; write 0 to 59"),
        ("@reboot", "write one of @hourly, @daily"),
        ("@dayly", "did you mean @daily?"),
        ("@daily 5", "write @daily alone"),
        ("@every 5m", "every ="),
        ("@", "is no name of a time"),
        ("61 * * * *", "minute: 61 is out of range; write 0 to 59"),
        ("0 0 * * mon-fir", "did you mean fri?"),
        ("0 0 * janu *", "did you mean jan?"),
        ("0 0 ? * *", "'?' is not a value; write *"),
        ("0 0 L5 * *", "'L5' is not a value; write 1 to 31, L, L-3, LW or 15W"),
        ("0 0 15-L * *", "day of month: '15-L' is not a value"),
        ("0 0 L/2 * *", "day of month: 'L/2' is not a value"),
        ("0 0 W * *", "day of month: 'W' is not a value"),
        ("0 0 1-5W * *", "day of month: '1-5W' is not a value"),
        ("0 0 32W * *", "day of month: 32 is out of range; write 1 to 31"),
        ("0 0 0W * *", "day of month: 0 is out of range"),
        ("0 0 L-31 * *", "write L for the last day, L-1 to L-30"),
        ("0 0 L-0 * *", "'L-0' is out of range"),
        ("0 0 1#2 * *", "day of month: '1#2' is not a value"),
        ("0 0 * * L5", "write 5L for the last Friday"),
        ("0 0 * * L", "write 5L for the last Friday"),
        ("0 0 * * 15W", "L and W alone belong to the day of month"),
        ("0 0 * * 8L", "day of week: 8 is out of range; write 0 to 7"),
        ("0 0 * * 1-5L", "day of week: '1-5' is not a value"),
        ("0 0 * * 2#6", "write 2#1 to 2#5, or 2L for the last"),
        ("0 0 * * 2#0", "write 2#1 to 2#5"),
        ("0 0 * * 2#L", "2L for the last"),
        ("0 0 * * 2#", "'2#' is not a value"),
        ("0 0 * * #2", "day of week: '' is not a value"),
        ("0 0 * * fry#2", "did you mean fri?"),
        ("0 L * * *", "hour: 'L' is not a value"),
        ("9-5 * * * *", "write 5-9"),
        ("*/61 * * * *", "a step is 1 to 60"),
        ("*/ * * * *", "step ''"),
        ("1-2-3 * * * *", "'2-3' is not a value"),
        ("+5 * * * *", "'+5' is not a value"),
        ("1_0 * * * *", "'1_0' is not a value"),
        ("\N{ARABIC-INDIC DIGIT FIVE} * * * *", "no plain ASCII"),
        ("* * * * *\n0 0 * * *", "on one line"),
        ("0 0 31 2,4,6,9,11 *", "no day of its months is '31'"),
        ("0 0 31W 4 *", "never comes"),
        ("0 0 L-29 2 *", "never comes"),
        ("0 0 LW * */7", "no day of its months is both day of month 'LW' and day of week '*/7'"),
        ("0 0 */31 2 5#5", "never comes"),
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
