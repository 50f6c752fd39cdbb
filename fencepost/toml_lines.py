"""Which line of a TOML file stands for a path of keys, in one pass over a text that is known to parse.

tomllib tells no positions. So the text is cut into its statements, and only those are parsed, each by itself, that
can say something about the path: all in all never more bytes than the file has.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, Final

Keys = tuple[str | int, ...]

_TOKEN: Final = re.compile(
    r"""
      "{3} (?: [^"\\]++ | \\. | "(?!"") )*+ "{3} "{0,2}    # a text of several lines may end in two more quotes
    | '{3} (?: [^']++ | '(?!'') )*+ '{3} '{0,2}
    | " (?: [^"\\\n]++ | \\. )*+ "
    | ' [^'\n]*+ '
    | \# [^\n]*+
    | (?P<end>\n) | (?P<open>[\[{]) | (?P<close>[\]}])
    | [^"'\#\n\[\]{}]++
    """,
    re.VERBOSE | re.DOTALL,
)


def line_of(text: str, keys: Keys) -> int | None:
    """Return the line, from 1, that ends the statement after which the text holds a path; None if none does.

    Args:
        text: what `tomllib.loads` takes.
    """
    if not keys:
        return 1
    counted: dict[Keys, int] = {}  # the last index of each list of tables
    known: dict[str, Sequence[str]] = {}  # the keys of each header: a list of tables repeats its own
    table: Keys = ()
    for line, statement in _statements(text):
        if statement.startswith("["):
            if statement not in known:
                known[statement] = _path(tomllib.loads(statement))
            table = _entered(known[statement], counted, is_list=statement.startswith("[["))
            if table[: len(keys)] == keys:
                return line
        elif keys[: len(table)] == table and holds(tomllib.loads(statement), keys[len(table) :]):
            return line
    return None


def holds(value: Any, keys: Sequence[str | int]) -> bool:  # noqa: ANN401  # whatever TOML can hold
    """Return whether a value has something at a path of keys and indices."""
    for key in keys:
        listed = isinstance(value, list) and isinstance(key, int) and key < len(value)
        if not listed and not (isinstance(value, dict) and key in value):
            return False
        value = value[key]
    return True


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Cut a text at each end of line that is in no string and no bracket; with the number of the last line of each."""
    line, depth, start = 1, 0, 0
    for token in _TOKEN.finditer(text):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if token["end"] is None:
            line += token[0].count("\n")
            continue
        if depth == 0:
            if statement := text[start : token.start()].strip():
                yield line, statement
            start = token.end()
        line += 1
    if statement := text[start:].strip():
        yield line, statement


def _path(header: Any) -> list[str]:  # noqa: ANN401  # whatever TOML can hold
    """Return the keys of a header that was parsed alone: each level of it has exactly one."""
    path: list[str] = []
    while isinstance(header, dict) and header:
        (key,) = header
        path.append(key)
        header = header[key]
    return path


def _entered(header: Sequence[str], counted: dict[Keys, int], *, is_list: bool) -> Keys:
    """Return the path of the table that a header opens, with the index of each list of tables on the way."""
    table: Keys = ()
    for key in header[:-1]:
        table = _within((*table, key), counted)
    table = (*table, header[-1])
    if is_list:
        counted[table] = counted.get(table, -1) + 1
    return _within(table, counted)


def _within(table: Keys, counted: dict[Keys, int]) -> Keys:
    return (*table, counted[table]) if table in counted else table
