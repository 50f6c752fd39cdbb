"""Dates, ranges, weekly windows and named calendars, and that asking for the next run stays cheap among them."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import BadExpression, Timing, because, check_timing, next_occurrence, next_run, occurrences
from runner.calendar.dst import dst_policy
from runner.calendar.exclusions import MAX_ENTRIES, Dates, Exclusions, Named, Window, entry, exclusions, exclusions_of
from runner.calendar.zones import zone
from runner.checkpoint.ops import Cron, Every
from tests.calendar.oracle import Text

NOON = int(datetime(2026, 12, 23, 12, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 86_400_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def day(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def timing(cron: str, *exclude: str, zone: str = "UTC") -> Timing:
    return Timing(Cron(cron), zone, exclusions=exclusions_of(exclude))


def runs(when: Timing, after: str, until: str) -> list[str]:
    walked = takewhile(lambda each: each.at_ms < ms(until), occurrences(when, ms(after)))
    return [datetime.fromtimestamp(each.at_ms / 1000, UTC).strftime("%dT%H:%M") for each in walked if not each.skipped]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-25", Dates(day("2026-12-25"), day("2026-12-25"))),
        ("2026-12-24..2027-01-01", Dates(day("2026-12-24"), day("2027-01-01"))),
        ("sat,sun", Window((0, 6), 0, 1440)),
        ("Fri-Sun", Window((0, 5, 6), 0, 1440)),
        ("1-5 22:00-06:00", Window((1, 2, 3, 4, 5), 1320, 360)),
        ("mon 08:00-24:00", Window((1,), 480, 1440)),
        ("mon 08:00-00:00", Window((1,), 480, 1440)),
        ("7  00:00-00:01", Window((0,), 0, 1)),
        ("calendar:holidays", Named("holidays")),
    ],
)
def test_what_may_be_written(text: str, expected: object) -> None:
    assert entry(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not an exclusion; write 2026-12-25"),
        ("christmas", "is not an exclusion; day of week: 'christmas' is not a value"),
        ("sat,,sun", "an empty item"),
        ("mon-fir", "did you mean fri?"),
        ("2026-1-1", "is not an exclusion; write 2026-12-25"),
        ("2026-02-30", "there is no 2026-02-30"),
        ("2026-03-02..2026-03-01", "runs backwards; write 2026-03-01..2026-03-02"),
        ("1969-12-31", "lies outside the years 1970 to 9995"),
        ("9996-01-01", "lies outside the years 1970 to 9995"),
        ("sat 10:00-10:00", "is an empty window"),
        ("sat 24:00-01:00", "is an empty window"),
        ("sat 08:60-10:00", "names no time of day: 08:60"),
        ("sat 08:00-24:01", "names no time of day: 24:01"),
        ("sat 8:00-10:00", "is not an exclusion"),
        ("x" * 10_000, "…"),
    ],
)
def test_what_may_not_be_written_is_refused_with_what_is_right(text: str, words: str) -> None:
    with pytest.raises(BadExpression) as caught:
        entry(text)
    assert words in str(caught.value)
    assert caught.value.key == "exclude"
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("calendar:holidys",), "did you mean holidays?"),
        (("mon-fri", "sat,sun"), "every hour of the week"),
        (("sun-sat 12:00-11:59", "mon-sun 11:00-12:30"), "every hour of the week"),
        (("2026-01-01",) * (MAX_ENTRIES + 1), "more than 1000 entries"),
    ],
)
def test_lists_that_cannot_be_meant(texts: tuple[str, ...], words: str) -> None:
    with pytest.raises(BadExpression, match="exclude") as caught:
        exclusions((entry(text) for text in texts), {"holidays": ()})
    assert words in str(caught.value)


def test_dates_are_whole_days_on_the_schedules_own_clock() -> None:
    when = timing("0 */6 * * *", "2026-12-25", zone="America/New_York")
    assert runs(when, "2026-12-25T00:00Z", "2026-12-26T12:00Z") == ["26T05:00", "26T11:00"]


def test_a_window_holds_its_first_minute_and_not_its_last_and_may_cross_midnight() -> None:
    when = timing("0 * * * *", "fri 22:00-02:00")  # 25 December 2026 is a Friday
    assert runs(when, "2026-12-25T19:00Z", "2026-12-26T04:00Z") == ["25T20:00", "25T21:00", "26T02:00", "26T03:00"]
    weeks_end = timing("0 * * * *", "sat 23:00-01:00")
    assert runs(weeks_end, "2026-12-26T21:00Z", "2026-12-27T03:00Z") == ["26T22:00", "27T01:00", "27T02:00"]


def test_windows_follow_the_wall_clock_through_its_changes() -> None:
    when = timing("*/30 * * * *", "sun 02:00-03:00", zone="Europe/Berlin")
    autumn = runs(when, "2026-10-24T23:00Z", "2026-10-25T03:00Z")
    assert autumn == ["24T23:30", "25T02:00", "25T02:30"], "both passes of 02:00 to 03:00 are excluded"
    spring = runs(
        timing("30 2 * * *", "sun 02:00-03:00", zone="Europe/Berlin"), "2026-03-28T12:00Z", "2026-03-31T00:00Z"
    )
    assert spring == ["29T01:00", "30T00:30"], "what is made up runs at 03:00, which no window holds"


def test_a_named_calendar_is_its_dates() -> None:
    found = exclusions([Named("shut"), entry("2026-12-28")], {"shut": (Dates(day("2026-12-24"), day("2026-12-26")),)})
    when = Timing(Cron("0 9 * * *"), "UTC", exclusions=found)
    assert runs(when, "2026-12-23T00:00Z", "2026-12-30T00:00Z") == ["23T09:00", "27T09:00", "29T09:00"]


def test_what_is_excluded_is_told_and_not_lost() -> None:
    when = timing("0 12 * * *", "2026-12-24..2026-12-26")
    found = list(islice(occurrences(when, NOON), 4))
    assert [(each.rule, each.skipped) for each in found] == [("excluded", "excluded")] * 3 + [(None, None)]
    assert because(when, found[0]) == "excluded from 2026-12-24 00:00 until 2026-12-27 00:00"
    first, run = next_occurrence(when, NOON), next_run(when, NOON)
    assert first == found[0]
    assert run == found[3]


def test_elapsed_time_is_excluded_by_the_wall_clock_too() -> None:
    when = Timing(Every(6 * 3600), "UTC", NOON, exclusions=exclusions_of(("2026-12-24", "fri 00:00-12:00")))
    assert runs(when, "2026-12-23T12:00Z", "2026-12-26T00:00Z") == ["23T18:00", "25T12:00", "25T18:00"]


WHENS = st.sampled_from(["2026-03-28", "2026-03-29..2026-03-31", "2026-10-24..2026-10-25", "sat,sun", "mon 22:00-06:00",
                         "sun 02:00-03:00", "sat 23:00-02:30", "1-5 09:00-17:00", "sun 00:00-24:00", "tue-thu 23:30-00:15"])  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    st.lists(WHENS, min_size=1, max_size=4),
    st.sampled_from(["*/30 * * * *", "15 2 * * *", "0 0 * * 7", "*/20 30 1-3 * * *", "0 12 L * *"]),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "UTC"]),
    st.sampled_from(["2026-03-27T20:00Z", "2026-10-23T20:00Z", "2026-11-01T00:00Z"]),
    st.integers(0, 2 * 86_400),
)
def test_the_next_run_is_the_first_that_nothing_excludes(
    texts: list[str], cron: str, name: str, since: str, offset_s: int
) -> None:
    """The oracle reads the texts for itself, and asks the standard library what the clock shows."""
    when = timing(cron, *texts, zone=name)
    after_ms = ms(since) + offset_s * 1000
    plain = islice(occurrences(Timing(Cron(cron), name), after_ms), 400)
    for each in plain:
        local = datetime.fromtimestamp(each.at_ms / 1000, zone(name)).replace(tzinfo=None)
        if not any(_excludes(text, local) for text in texts):
            found = next_run(when, after_ms)
            assert found is not None
            assert (found.at_ms, found.skipped) == (each.at_ms, None)
            return


def _excludes(text: str, local: datetime) -> bool:
    if text[0] == "2":
        first, _, last = text.partition("..")
        return date.fromisoformat(first) <= local.date() <= date.fromisoformat(last or first)
    days, _, hours = text.partition(" ")
    from_text, _, to_text = (hours or "00:00-24:00").partition("-")
    begins = weekly(f"0 0 * * {days}")
    for back in (0, 1):
        midnight = datetime.combine(local.date() - timedelta(days=back), datetime.min.time())
        start = midnight + _length(from_text)
        end = midnight + _length(to_text) + timedelta(days=to_text <= from_text)
        if begins.date_matches(midnight.date()) and start <= local < end:
            return True
    return False


weekly = lru_cache(Text)


def _length(text: str) -> timedelta:
    hours, _, minutes = text.partition(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


@pytest.mark.parametrize(
    ("trigger", "texts"),
    [
        (Cron("* * * * * *"), ("2026-01-01..2040-12-31",)),
        (Every(1), ("2026-01-01..2040-12-31",)),
        (Cron("* * * * * *"), ("mon-sun 00:00-23:59",)),
        (Cron("* * * * *"), ("2026-12-01..9995-12-31",)),
        (Cron("* * * * * *"), (*tuple(f"2026-12-{each}" for each in range(10, 32)), "2027-01-01..2027-01-02")),
    ],
)
def test_a_full_excluded_stretch_is_jumped_over(
    trigger: Cron | Every, texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = Exclusions.covering

    def covering(self: Exclusions, reading_s: int) -> tuple[int, int] | None:
        asked.append(reading_s)
        return original(self, reading_s)

    monkeypatch.setattr(Exclusions, "covering", covering)
    found = next_run(Timing(trigger, "Europe/Berlin", exclusions=exclusions_of(texts)), NOON)
    assert found is None or found.skipped is None
    assert len(asked) < 40


@pytest.mark.parametrize(
    ("cron", "name", "text", "after", "expected"),
    [
        # Seen from winter, the range seems to end an hour later than it does.
        ("*/10 * * * *", "Europe/Berlin", "2026-02-01..2026-04-30", "2026-01-31T22:59Z", "2026-04-30T22:00Z"),
        ("*/10 * * * *", "Europe/Berlin", "2026-08-01..2026-11-30", "2026-07-31T21:59Z", "2026-11-30T23:00Z"),
        # A minute into the range, St John's clock goes back into the day before.
        ("*/30 * * * * *", "America/St_Johns", "2010-11-07..2010-12-31", "2010-11-07T02:29:59Z", "2010-11-07T02:31Z"),
    ],
)
def test_a_jump_to_the_end_of_a_range_passes_no_run(cron: str, name: str, text: str, after: str, expected: str) -> None:
    found = next_run(timing(cron, text, zone=name), ms(after))
    assert found is not None
    assert found.at_ms == ms(expected)


@pytest.mark.parametrize(
    ("when", "key"),
    [
        (timing("0 23 * * *", "mon-sun 22:00-06:00"), "exclude"),
        (timing("0 0 29 2 *", "mon-sun 00:00-23:59"), "exclude"),
        (Timing(Cron("30 2 * 3 7L"), "Europe/Berlin", policy=dst_policy("skip", "first")), "dst_gap"),
        (Timing(Cron("* 2 25-31 3 */7"), "Europe/Berlin"), "cron"),
    ],
)
def test_a_schedule_that_would_never_run_is_refused(when: Timing, key: str) -> None:
    with pytest.raises(BadExpression, match=r"nothing would run|never comes") as caught:
        check_timing(when, NOON)
    assert caught.value.key == key


def test_what_runs_is_accepted() -> None:
    check_timing(timing("0 23 * * *", "sat"), NOON)
    check_timing(timing("0 23 * * *"), NOON)
    check_timing(Timing(Every(1), "UTC"), 253_300_000_000_000)  # no more of it, but nothing that is skipped
