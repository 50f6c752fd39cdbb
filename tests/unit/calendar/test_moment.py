from datetime import datetime

import pytest

from runner.calendar import BadExpression, moment_ms


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "timezone", "instant"),
    [
        ("2026-12-01T10:00:00Z", "Asia/Tokyo", "2026-12-01T10:00:00+00:00"),
        ("2026-12-01t10:00:00z", "UTC", "2026-12-01T10:00:00+00:00"),
        ("2026-12-01 10:00:00.250+02:00", "UTC", "2026-12-01T08:00:00.250+00:00"),
        ("2026-12-01T10:00", "Asia/Tokyo", "2026-12-01T01:00:00+00:00"),
        ("2026-03-29T03:00:00", "Europe/Berlin", "2026-03-29T01:00:00+00:00"),  # the first reading after the gap
        ("2026-03-29T01:59:59", "Europe/Berlin", "2026-03-29T00:59:59+00:00"),  # the last one before it
        ("2026-10-25T03:00:00", "Europe/Berlin", "2026-10-25T02:00:00+00:00"),
        ("1970-01-01T00:00:00Z", "UTC", "1970-01-01T00:00:00+00:00"),
    ],
)
def test_an_instant_with_an_offset_or_read_in_the_timezone(text: str, timezone: str, instant: str) -> None:
    assert moment_ms(text, timezone) == ms(instant)


@pytest.mark.parametrize(
    ("text", "timezone", "words"),
    [
        ("", "UTC", "at '' is not an instant; write 2026-12-01T10:00:00Z"),
        ("2026-12-01", "UTC", "is not an instant"),
        ("20261201T100000Z", "UTC", "is not an instant"),
        ("2026-W49-2T10:00Z", "UTC", "is not an instant"),
        ("2026-02-30T10:00:00Z", "UTC", "is not an instant"),
        ("2026-12-01T10:00:60Z", "UTC", "is not an instant"),
        ("2026-12-01T10:00:00.0001Z", "UTC", "is not an instant"),
        ("2026-12-01T10:00:00+99:00", "UTC", "is not an instant"),
        ("２026-12-01T10:00:00Z", "UTC", "is not an instant"),  # noqa: RUF001 -- a digit that is no ASCII digit
        ("x" * 9_000, "UTC", "x…' is not an instant"),
        ("1969-12-31T23:59:59Z", "UTC", "lies outside the years 1970 to 9995"),
        ("9999-12-31T23:59:59-23:59", "UTC", "lies outside the years"),
        ("0001-01-01T00:00:00", "Asia/Tokyo", "lies outside the years"),
        ("9999-12-31T23:59:59", "America/New_York", "lies outside the years"),
        ("2026-12-01T10:00:00", "Asia/Tokio", "did you mean Asia/Tokyo?"),
        ("2026-12-01T10:00:00Z", "Nowhere", "is not a known IANA zone"),
        (
            "2026-03-29T02:30:00",
            "Europe/Berlin",
            (
                "is jumped over when the clock of Europe/Berlin is changed; "
                "write 2026-03-29T01:30:00+01:00 or 2026-03-29T03:30:00+02:00"
            ),
        ),
        (
            "2026-10-25T02:30:00",
            "Europe/Berlin",
            (
                "comes twice when the clock of Europe/Berlin is changed; "
                "write 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"
            ),
        ),
        ("2011-12-30T12:00:00", "Pacific/Apia", "is jumped over"),  # a day that never was
    ],
)
def test_what_names_no_one_instant_is_refused_in_words(text: str, timezone: str, words: str) -> None:
    with pytest.raises(BadExpression) as caught:
        moment_ms(text, timezone)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
