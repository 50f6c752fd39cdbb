"""Lengths of time as people write them: a whole number and a unit, `30s`."""

import re
from typing import Final

MS_PER: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_MS: Final = 3_650 * MS_PER["d"]

_FORM: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")


class BadDuration(ValueError):
    """The text is no length of time that we take; the message says which form is right."""


def milliseconds(text: str) -> int:
    """Return a length of time in milliseconds, from 1 to ten years.

    Raises:
        BadDuration: another form, nothing at all, or longer than `LONGEST_MS`.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise BadDuration('a length of time is a whole number and one of ms, s, m, h, d, such as "30s"')
    length_ms = int(match[1]) * MS_PER[match[2]]
    if not 0 < length_ms <= LONGEST_MS:
        raise BadDuration("a length of time is more than nothing and at most 3650d")
    return length_ms
