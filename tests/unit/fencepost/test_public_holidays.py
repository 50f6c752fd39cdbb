"""`fencepost calendar write`, with a stand-in for the `holidays` package, which the lock file does not have."""

import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.main import main
from fencepost.schedule_file import load_schedules


def country_holidays(country: str, subdiv: str | None, years: range) -> dict[date, str]:
    assert country == "DE"
    found = {date(year, 12, 25): "Erster\nWeihnachtstag" for year in (*years, years[-1] + 1)}
    return found | ({date(years[0], 8, 15): "Mariä Himmelfahrt"} if subdiv == "BY" else {})


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    known: Any = lambda: {"DE": ["BY", "BE"], "VA": []}  # noqa: E731 -- as short as the package's own answer
    stand_in = SimpleNamespace(__version__="0.1", list_supported_countries=known, country_holidays=country_holidays)
    monkeypatch.setitem(sys.modules, "holidays", stand_in)


@pytest.mark.usefixtures("package")
def test_what_it_writes_is_a_list_that_a_calendar_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calendar", "write", "DE", "--part", "BY", "--years", "2026..2027"]) == 0
    (tmp_path / "de.toml").write_text(capsys.readouterr().out)
    path = tmp_path / "schedules.toml"
    path.write_text('[[pool]]\nname = "a"\nlimit = 1\n[[calendar]]\nname = "de"\nfile = "de.toml"\n')
    (calendar,) = load_schedules(path).calendars
    assert calendar.dates == ("2026-08-15", "2026-12-25", "2027-12-25")
    assert main(["calendar", "write", "DE", "--years", "2026"]) == 0
    assert capsys.readouterr().out.count('",  # ') == 1


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["DR", "--years", "2026"], '"DR" is no country that it knows; right would be an ISO 3166 code, such as DE'),
        (
            ["DE", "--part", "BX", "--years", "2026"],
            '--part "BX" is no part of DE that it knows; right would be: BE, BY',
        ),
        (["VA", "--part", "X", "--years", "2026"], "leave it out, it has none"),
        (["DE", "--years", "soon"], '--years "soon" names no years; right would be 2026 or 2026..2028'),
        (["DE", "--years", "2027..2026"], '--years "2027..2026" is out of range'),
        (["DE", "--years", "2026..2126"], "1 to 100 of 1970 to 9995"),
        (["DE", "--years", "1969"], '--years "1969" is out of range'),
    ],
)
def test_what_cannot_be_meant_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calendar", "write", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_without_the_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    assert main(["calendar", "write", "DE", "--years", "2026"]) == 2
    assert "install fencepost[holidays]" in capsys.readouterr().err
