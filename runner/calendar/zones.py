"""IANA time zones from the pinned tzdata package, by name and never by path.

zoneinfo would prefer the host's own files, which differ between voters; the package is the same wherever the lock
file was installed. A name is looked up in the package's list before anything is opened.
"""

from difflib import get_close_matches
from functools import lru_cache
from importlib import metadata
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from runner.calendar.expression import BadExpression

SHOWN_CHARS: Final = 60
NOT_A_PLACE: Final = frozenset({"Factory"})  # the mark of an unset host: its clock would read UTC unnoticed


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of the package that the time zone data comes from, such as `2025.2` for IANA's 2025b."""
    return metadata.version("tzdata")


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Return every zone name that is accepted, old aliases included."""
    listed = files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
    return frozenset(listed) - NOT_A_PLACE


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Return a zone's rules.

    Raises:
        BadExpression: no zone has this name; the nearest right one is in the text.
    """
    if name not in names():
        raise BadExpression("timezone", _unknown(name))
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)


def _unknown(name: str) -> str:
    shown = name if len(name) <= SHOWN_CHARS else name[:SHOWN_CHARS] + "…"
    if not name:
        return "timezone is empty; write an IANA name such as Europe/Berlin, or UTC"
    folded = {known.casefold(): known for known in sorted(names())}
    near = get_close_matches(name[:SHOWN_CHARS].casefold(), folded, n=1)
    hint = f"did you mean {folded[near[0]]}?" if near else "write an IANA name such as Europe/Berlin, or UTC"
    return f"timezone {shown!r} is not a known IANA zone; {hint}"
