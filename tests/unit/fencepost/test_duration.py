import pytest

from fencepost.duration import LONGEST_MS, BadDuration, milliseconds


@pytest.mark.parametrize(
    ("text", "right"),
    [("1ms", 1), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("3650d", LONGEST_MS), ("007s", 7_000)],
)
def test_a_number_and_a_unit(text: str, right: int) -> None:
    assert milliseconds(text) == right


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "s",
        "30 s",
        " 30s",
        "30s\n",
        "-1s",
        "+1s",
        "1.5s",
        "1e3s",
        "30S",
        "30sec",
        "1m30s",
        "٣s",
        "9" * 40 + "s",
    ],
)
def test_any_other_form_is_refused_with_the_right_one(text: str) -> None:
    with pytest.raises(BadDuration, match="30s"):
        milliseconds(text)


@pytest.mark.parametrize("text", ["0s", "0ms", "3651d", "999999999999999d"])
def test_nothing_and_more_than_ten_years_are_refused(text: str) -> None:
    with pytest.raises(BadDuration, match="at most 3650d"):
        milliseconds(text)
