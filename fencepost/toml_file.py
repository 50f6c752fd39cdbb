"""A TOML file as typed records, with errors that say file, line, key and the nearest right word.

msgspec says *what* is wrong at which path, tomllib gives lines only for syntax errors; so the line of a path is that
of the shortest prefix of the file that parses and holds the path (WIRE: Config).
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from fencepost import toml_lines
from fencepost.faults import Mistake
from fencepost.nearest import quoted, suggestion
from fencepost.toml_lines import Keys

MAX_BYTES: Final = 1 << 20  # as much as one apply may carry

T = TypeVar("T")

_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<key>[A-Za-z0-9_-]+)|\[(?P<index>\d+)\]")
_FIELD: Final = re.compile(r"Object (?P<fault>contains unknown|missing required) field `(?P<key>.*)`", re.DOTALL)
_CHOICE: Final = re.compile(r"Invalid enum value '(?P<value>.*)'", re.DOTALL)
_WORDS: Final = {
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`array`": "a list",
    "`object`": "a table",
    "`str | array`": "text or a list",
}


class TomlFile:
    """The text of one file and what it parses to."""

    def __init__(self, path: Path, text: str, table: dict[str, Any]) -> None:
        self.path = path
        self.table = table
        self._text = text

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and parse a file.

        Raises:
            Mistake: it cannot be read, is too long, or is not TOML.
        """
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except OSError as fault:
            raise Mistake(f"{path}: cannot be read: {fault.strerror}") from fault
        if len(raw) > MAX_BYTES:
            raise Mistake(f"{path}: longer than {MAX_BYTES} bytes, the most that a file may have; split it")
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as fault:
            line = raw.count(b"\n", 0, fault.start) + 1
            raise Mistake(f"{path}:{line}: not UTF-8 text") from fault
        return cls.parse(path, text)

    @classmethod
    def parse(cls, path: Path, text: str) -> Self:
        """Parse a text that came from a file.

        Raises:
            Mistake: it is not TOML.
        """
        try:
            return cls(path, text, tomllib.loads(text))
        except RecursionError as fault:
            raise Mistake(f"{path}: nested too deep") from fault
        except ValueError as fault:  # TOMLDecodeError is one, and so is an integer of 5,000 digits
            what, _, where = str(fault).partition(" (at line ")
            line = where.partition(",")[0]
            raise Mistake(f"{path}:{line}: {what}" if line.isdigit() else f"{path}: {fault}") from fault

    def line_of(self, keys: Keys) -> int | None:
        """Return the line, from 1, with which the shortest prefix of the file parses and holds a path."""
        try:
            return toml_lines.line_of(self._text, keys)
        except RecursionError:  # this call stands deeper than the one that parsed the file
            return None

    def mistake(self, keys: Keys, words: str) -> Mistake:
        """Return the error for what stands at a path."""
        line = self.line_of(keys) if keys else None
        return Mistake(f"{self.path}:{line}: {words}" if line else f"{self.path}: {words}")

    def convert(self, form: type[T], name: Callable[[Keys], str] = lambda _: "") -> T:
        """Return the file as a struct that forbids unknown fields.

        Args:
            name: what the things at a path are called in an error, such as `schedule demo/close: `.

        Raises:
            Mistake: a key is unknown or missing, or a value is not of its type.
        """
        try:
            return msgspec.convert(self.table, form)
        except msgspec.ValidationError as fault:
            keys, words = _explain(str(fault), form)
            raise self.mistake(keys, name(keys) + words) from fault


def _explain(text: str, form: type) -> tuple[Keys, str]:
    """Return the path that one of msgspec's errors is about, and our words for it."""
    match = _AT.fullmatch(text)
    assert match is not None  # the pattern takes any text
    what = match["what"]
    path = (match["path"] or "").partition("[...]")[0]  # a value in a table of free keys: msgspec does not say which
    keys: Keys = tuple(step["key"] or int(step["index"]) for step in _STEP.finditer(path))
    if field := _FIELD.fullmatch(what):
        right = _fields_at(msgspec.inspect.type_info(form), keys)
        if field["fault"] == "missing required":
            return keys, f"{quoted(field['key'])} is missing"
        return (*keys, field["key"]), f"unknown key {quoted(field['key'])}; {suggestion(field['key'], right)}"
    last = next((key for key in reversed(keys) if isinstance(key, str)), "")
    if choice := _CHOICE.fullmatch(what):
        right = _choices_at(msgspec.inspect.type_info(form), keys)
        return keys, f"{last} = {quoted(choice['value'])}; {suggestion(choice['value'], right)}"
    what = what.replace(" | null`", "`")  # TOML has none
    for theirs, ours in _WORDS.items():
        what = what.replace(theirs, ours)
    return keys, f"{quoted(last)}: {what[:1].lower()}{what[1:]}"


def _type_at(info: msgspec.inspect.Type, keys: Keys) -> msgspec.inspect.Type:
    """Return the type that a form gives to what stands at a path."""
    for key in keys:
        info = _without_none(info)
        match info:
            case msgspec.inspect.StructType(fields=fields):
                info = next(field.type for field in fields if field.encode_name == key)
            case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
                info = item
            case msgspec.inspect.DictType(value_type=item):
                info = item
            case _:
                break
    return _without_none(info)


def _without_none(info: msgspec.inspect.Type) -> msgspec.inspect.Type:
    if isinstance(info, msgspec.inspect.UnionType):
        return next(each for each in info.types if not isinstance(each, msgspec.inspect.NoneType))
    return info


def _fields_at(info: msgspec.inspect.Type, keys: Keys) -> list[str]:
    at = _type_at(info, keys)
    return [field.encode_name for field in at.fields] if isinstance(at, msgspec.inspect.StructType) else []


def _choices_at(info: msgspec.inspect.Type, keys: Keys) -> list[str]:
    at = _type_at(info, keys)
    return [str(value) for value in at.values] if isinstance(at, msgspec.inspect.LiteralType) else []
