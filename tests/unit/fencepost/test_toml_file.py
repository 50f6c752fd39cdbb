import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.faults import Mistake
from fencepost.toml_file import MAX_BYTES, TomlFile
from fencepost.toml_lines import Keys

TEXT = """\
title = "x"

[[schedule]]
name = "a"
env.ONE = "1"
env.TWO = "2"

[[schedule]]
name = '''
b'''
argv = [
  "sh",
]

[schedule.command]
timeout = 3
"""


class Command(msgspec.Struct, forbid_unknown_fields=True):
    timeout: str | None = None


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    overlap: Literal["skip", "queue"] = "skip"
    limit: Annotated[int, msgspec.Meta(ge=1)] = 1
    argv: list[str] = []
    env: dict[str, str] = {}
    command: Command | None = None


class Form(msgspec.Struct, forbid_unknown_fields=True):
    title: str = ""
    schedule: list[Entry] = []


def parsed(text: str) -> TomlFile:
    return TomlFile.parse(Path("f.toml"), text)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("title",), 1),
        (("schedule", 0), 3),
        (("schedule", 0, "name"), 4),
        (("schedule", 0, "env", "TWO"), 6),
        (("schedule", 1), 8),
        (("schedule", 1, "name"), 10),
        (("schedule", 1, "argv", 0), 13),
        (("schedule", 1, "command", "timeout"), 16),
        (("schedule", 2), None),
        (("schedule", "name"), None),
        (("title", "x"), None),
    ],
)
def test_the_line_of_a_path(keys: Keys, line: int | None) -> None:
    assert parsed(TEXT.replace("3", '"3s"')).line_of(keys) == line


def first_prefix_that_holds(text: str, keys: Keys) -> int | None:
    lines = text.split("\n")
    for count in range(1, len(lines) + 1):
        try:
            value: Any = tomllib.loads("\n".join(lines[:count]))
            for key in keys:
                value = value[key]
        except (tomllib.TOMLDecodeError, KeyError, IndexError, TypeError):
            continue
        return count
    return None


entries = st.sampled_from(
    [
        *("[[s]]", "k = 1", "j = [\n1, # ]\n2,\n]", "t = '''\n\n'''", "# note [", "", "[s.c]", "e = { x = 1 }"),
        *(
            'u = """\n\\"""" # """ [\n""""" # [',
            "v = '''\n''['''''",
            'w = "\\"[#" # \'',
            "[[s.d]]",
            "c.k = 1",
            '[ s . "c" ]',
        ),
    ]
)


RESTS: list[Keys] = [(), ("k",), ("j", 1), ("c",), ("e", "x"), ("c", "k"), ("d", 1), ("d", 0, "k"), ("u",), ("w",)]


@settings(deadline=None)
@given(st.lists(entries, max_size=30), st.integers(0, 5), st.sampled_from(RESTS))
def test_the_line_is_that_of_the_shortest_prefix_that_parses_and_holds_the_path(
    parts: list[str], index: int, rest: Keys
) -> None:
    text = "\n".join(parts)
    try:
        file = parsed(text)
    except Mistake:
        return  # the parts do not always make a file: a key twice, a table of nothing
    keys = ("s", index, *rest)
    assert file.line_of(keys) == first_prefix_that_holds(text, keys)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("filler", "keys"),
    [
        ("argv = [\n" + "'a',\n" * 20_000 + "]", ("schedule", 0, "b")),
        ("argv = [\n" + "1,\n" * 100_000 + "]", ("schedule", 0, "b")),
        ("\n" * 600_000, ("schedule", 0, "b")),
        ("\n".join(f"k{i} = 1" for i in range(20_000)), ("schedule", 0, "b")),
        ("[[schedule]]\n" * 30_000 + "a = 1", ("schedule", 30_000, "b")),
        ('t = """' + "\\n" * 400_000 + '"""', ("schedule", 0, "b")),
    ],
    ids=["arguments", "numbers", "nothing", "keys", "tables", "one text"],
)
def test_the_line_is_found_in_a_long_file(filler: str, keys: Keys) -> None:
    text = f"[[schedule]]\n{filler}\nb = 1\n"
    assert len(text) <= MAX_BYTES
    assert parsed(text).line_of(keys) == text.count("\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('titel = "x"', 'f.toml:1: unknown key "titel"; did you mean "title"?'),
        ("\nzzz = 1", 'f.toml:2: unknown key "zzz"; right would be: schedule, title'),
        ("title = 3", 'f.toml:1: "title": expected text, got a whole number'),
        ("[[schedule]]\n\nlimit = 2", 'f.toml:1: "name" is missing'),
        ('[[schedule]]\nname = "a"\noverlap = "skipp"', 'f.toml:3: overlap = "skipp"; did you mean "skip"?'),
        ('[[schedule]]\nname = "a"\nlimit = 0', 'f.toml:3: "limit": expected a whole number >= 1'),
        ('[[schedule]]\nname = "a"\nenv.X = 1', 'f.toml:3: "env": expected text, got a whole number'),
        (
            '[[schedule]]\nname = "a"\n[schedule.command]\ntimeot = ""',
            'f.toml:4: unknown key "timeot"; did you mean "timeout"?',
        ),
        ("[schedule]", 'f.toml:1: "schedule": expected a list, got a table'),
        ('"\\u001b[2J" = 1', 'f.toml:1: unknown key "\ufffd[2J"; right would be: schedule, title'),
        ("a = 'x", "f.toml: Expected"),
        ("ok = 1\n= 3", "f.toml:2: Invalid statement"),
        ("a = 1\na = 2\n", "f.toml:2: Cannot overwrite a value"),
        ("a = " + "9" * 5_000, "f.toml: "),
        ("a = " + "[" * 50_000, "f.toml: nested too deep"),
        ("a = 2026-02-30", "f.toml:1: Invalid date or datetime"),
    ],
)
def test_every_error_is_one_line_with_its_place_and_what_is_right(text: str, words: str) -> None:
    with pytest.raises(Mistake) as caught:
        parsed(text).convert(Form)
    assert str(caught.value).startswith(words)
    assert str(caught.value).isprintable()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    latin, long = tmp_path / "latin.toml", tmp_path / "long.toml"
    latin.write_bytes(b"a = 1\nb = '\xe9'\n")
    long.write_bytes(b"#" * (MAX_BYTES + 1))
    for path, words in (
        (latin, f"{latin}:2: not UTF-8 text"),
        (long, f"{long}: longer than"),
        (tmp_path, f"{tmp_path}: cannot be read: Is a directory"),
        (tmp_path / "none.toml", f"{tmp_path}/none.toml: cannot be read: No such file or directory"),
    ):
        with pytest.raises(Mistake) as caught:
            TomlFile.read(path)
        assert str(caught.value).startswith(words)
