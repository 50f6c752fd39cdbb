"""The nearest right word to a wrong one."""

import difflib
from collections.abc import Iterable


def suggestion(word: str, right: Iterable[str]) -> str:
    """Return the end of a sentence that leads from a wrong word to a right one."""
    known = sorted(right)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {quoted(close[0])}?"
    return f"right would be: {', '.join(known)}"


def quoted(word: str) -> str:
    """Return a word from outside as one short, printable piece of a line."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in word)
    limit = 80
    return f'"{shown}"' if len(shown) <= limit else f'"{shown[:limit]}…"'
