"""A list of dates for a named calendar, of public holidays as the `holidays` package knows them (extra `holidays`)."""

import re
from importlib import import_module
from typing import Any, Final

from fencepost.faults import Mistake
from fencepost.nearest import quoted, suggestion

MOST_YEARS: Final = 100
YEARS: Final = range(1970, 9996)

_FORM: Final = re.compile(r"([0-9]{4})(?:\.\.([0-9]{4}))?")
_RIGHT: Final = "right would be 2026 or 2026..2028"


def years_of(text: str) -> range:
    """Return the years that a text names.

    Raises:
        Mistake: it names none, too many, or such as no schedule can name.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise Mistake(f"--years {quoted(text)} names no years; {_RIGHT}")
    years = range(int(match[1]), int(match[2] or match[1]) + 1)
    if not 1 <= len(years) <= MOST_YEARS or years[0] not in YEARS or years[-1] not in YEARS:
        bounds = f"1 to {MOST_YEARS} of {YEARS[0]} to {YEARS[-1]}, the first one first"
        raise Mistake(f"--years {quoted(text)} is out of range; {bounds}, is right")
    return years


def dates_file(country: str, subdivision: str | None, years: range) -> str:
    """Return a file that a `[[calendar]]` may name: the public holidays of a country, or of a part of it.

    Args:
        country: ISO 3166 code, such as `DE`.
        subdivision: code of a part of it, such as `BY`; None for what holds in all of it.

    Raises:
        Mistake: the package is not installed, or knows no such country or part.
    """
    package = _package()
    known: dict[str, list[str]] = package.list_supported_countries()
    if country not in known:
        raise Mistake(f"{quoted(country)} is no country that it knows; right would be an ISO 3166 code, such as DE")
    if subdivision is not None and subdivision not in known[country]:
        parts = suggestion(subdivision, known[country]) if known[country] else "leave it out, it has none"
        raise Mistake(f"--part {quoted(subdivision)} is no part of {country} that it knows; {parts}")
    found = sorted(package.country_holidays(country, subdiv=subdivision, years=years).items())
    where = country if subdivision is None else f"{country}, {subdivision}"
    lines = [f'  "{day.isoformat()}",  # {_plain(name)}' for day, name in found if day.year in years]
    head = f"# Public holidays ({where}) from {years[0]} to {years[-1]}, as holidays {package.__version__} knows them."
    return "\n".join([head, "dates = [", *lines, "]"])


def _package() -> Any:  # noqa: ANN401 -- it is not installed where this is checked
    try:
        return import_module("holidays")
    except ImportError as fault:
        words = "the holidays package is not installed; install fencepost[holidays], or write the dates yourself"
        raise Mistake(words) from fault


def _plain(name: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in name)
