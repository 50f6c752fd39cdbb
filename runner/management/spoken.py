"""From one line to a command with its values: plain words with a shell's quoting, or one JSON object. Pure, total."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from cluster.problem import Problem
from runner.management.console_words import ALSO, FLAGS, LISTS, NUMBERS, WORDS, Word
from runner.management.line_requests import Values, quoted
from runner.management.recovering import is_one_plain_line

MAX_PLAIN_BYTES: Final = 16 << 10
"""Room for the longest statement; a shell's quoting is read letter by letter, while the loop waits."""
MAX_DIGITS: Final = 16
MAX_TEXT: Final = 4096


@dataclass(frozen=True, slots=True)
class Spoken:
    """A command that was understood.

    Attributes:
        values: what was said, by name; each is one that the word takes, and nothing that it needs is missing.
    """

    word: Word
    values: Values
    is_json: bool


def is_json(raw: bytes) -> bool:
    """Tell in which of the two forms a line was meant, whatever is wrong with it."""
    return raw.lstrip(b" \t\r").startswith(b"{")


def understood(raw: bytes) -> Spoken:
    """Return what a line says.

    Raises:
        Problem: 400: it says nothing that this console knows; what, and what would be right.
    """
    if is_json(raw):
        return _from_json(raw)
    if len(raw) > MAX_PLAIN_BYTES:
        raise bad(f"The line is longer than {MAX_PLAIN_BYTES} bytes; say it as JSON.")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise bad("The line is not UTF-8 text.") from None
    if not is_one_plain_line(text.replace("\t", " ")):
        raise bad("The line holds control characters, or others that cannot be seen.")
    try:
        words = shlex.split(text)
    except ValueError:
        raise bad("A quote is not closed, or a backslash ends the line.") from None
    if not words:
        raise bad("The line says nothing; `help` lists the commands.")
    word = _word(words[0])
    return Spoken(word, _checked(word, _plain_values(word, words[1:])), is_json=False)


def as_said(spoken: Spoken, also: Mapping[str, object]) -> object:
    """Return the same command with further values, as text in plain words, else (a list has no plain words) an object."""
    values = {**spoken.values, **also}
    if spoken.is_json or values.keys() & LISTS:
        return {"command": spoken.word.name, **values}
    in_order = [str(values.pop(name)) for name in spoken.word.in_order if name in values]
    named = [_named(name, value) for name, value in values.items() if value is not False]
    return shlex.join([spoken.word.name, *in_order, *named])


def _named(name: str, value: object) -> str:
    option = f"--{name.replace('_', '-')}"
    return option if name in FLAGS else f"{option}={value}"


def bad(detail: str) -> Problem:
    """Return the answer to a line that cannot be meant so."""
    return Problem(400, "Bad Request", detail, "not_done")


def _from_json(raw: bytes) -> Spoken:
    try:
        said = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as fault:
        raise bad(f"The line is not one JSON object: {fault}.") from None
    if not isinstance(said, dict):
        raise bad("The line is not one JSON object.")
    name = said.pop("command", None)
    if not isinstance(name, str):
        raise bad('The object has no member "command" that is a text; {"command": "help"} lists the commands.')
    word = _word(name)
    return Spoken(word, _checked(word, {key: value for key, value in said.items() if value is not None}), is_json=True)


def _word(name: str) -> Word:
    word = WORDS.get(ALSO.get(name, name))
    if word is None:
        raise bad(f"There is no command {quoted(name)}; `help` lists them.")
    return word


def _plain_values(word: Word, words: Sequence[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    free = iter(word.in_order)
    rest = iter(words)
    for each in rest:
        if each.startswith("--"):
            name, value = _option(word, each, rest)
        else:
            name, value = next(free, ""), each
            if not name:
                raise bad(f"{quoted(each)} is one word too many; say: {word.usage()}")
        if name in values:
            raise bad(f"{name} is said twice; say: {word.usage()}")
        values[name] = True if name in FLAGS else _number(name, value) if name in NUMBERS else value
    return values


def _option(word: Word, said: str, rest: Iterator[str]) -> tuple[str, str]:
    option, equals, value = said.partition("=")
    name = option.removeprefix("--").replace("-", "_")
    if name not in word.named or name in LISTS:
        raise bad(f"{word.name} takes no {quoted(option)} in plain words; say: {word.usage()}")
    if name in FLAGS:
        if equals:
            raise bad(f"{option} takes no value; leave it out for no.")
    elif not equals:
        value = next(rest, "--")
        if value.startswith("--"):
            raise bad(f"{option} has no value (one that begins with -- is said as {option}=VALUE).")
    return name, value


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise bad(f"{name} is {quoted(text)}; say a number.")
    return int(text)


def _checked(word: Word, values: Values) -> Values:
    """Return the values, each of a name and a kind that the word takes; what they mean is the handler's to judge."""
    for name, value in values.items():
        if name not in word.in_order and name not in word.named:
            raise bad(f"{word.name} takes no {quoted(name)}; in plain words: {word.usage()}")
        if name in NUMBERS and not _is_number(value):
            raise bad(f"{name} is no number that can be meant.")
        if name in LISTS and not isinstance(value, list):
            raise bad(f"{name} is no list.")
        if name in FLAGS and not isinstance(value, bool):
            raise bad(f"{name} is neither true nor false.")
        if name not in NUMBERS | LISTS | FLAGS and not (isinstance(value, str) and _is_plain(value)):
            raise bad(f"{name} is not one line of plain text of at most {MAX_TEXT} characters.")
    for name in (*word.needs, *word.needs_named):
        if name not in values:
            raise bad(f"{word.name} needs {name}; in plain words: {word.usage()}")
    return values


def _is_plain(text: str) -> bool:
    return len(text) <= MAX_TEXT and is_one_plain_line(text)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**MAX_DIGITS
