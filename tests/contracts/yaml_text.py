"""Plain values as YAML, in one way only, so that a document can be compared as text."""

import json
import re
import textwrap
from typing import Any, Final

WIDTH: Final = 110

_PLAIN: Final = re.compile(r"[A-Za-z/_$][A-Za-z0-9/_$.-]*", re.ASCII)
_WORDS_WITH_A_MEANING: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def yaml_text(value: Any, indent: int = 0) -> str:
    """Return a dict or list as block YAML, everything else as what stands after a colon."""
    pad = " " * indent
    match value:
        case dict() if value:
            return "".join(f"{pad}{_scalar(str(key))}:{_after_colon(each, indent + 2)}" for key, each in value.items())
        case list() if value and all(isinstance(each, dict) and each for each in value):
            return "".join(f"{pad}- {yaml_text(each, indent + 2).removeprefix(pad + '  ')}" for each in value)
        case list() if value:
            return "".join(f"{pad}-{_after_colon(each, indent + 2)}" for each in value)
        case _:
            raise AssertionError(f"no block: {value!r}")


def _after_colon(value: Any, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + yaml_text(value, indent)
    if isinstance(value, str) and len(value) + indent > WIDTH:
        lines = textwrap.wrap(value, WIDTH - indent, break_long_words=False, break_on_hyphens=False)
        assert " ".join(lines) == value, "folding would change a text"
        return " >-\n" + "".join(f"{' ' * indent}{line}\n" for line in lines)
    return f" {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS_WITH_A_MEANING:
        return value
    return json.dumps(value, ensure_ascii=False)
