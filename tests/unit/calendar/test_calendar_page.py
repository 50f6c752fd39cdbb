"""`docs/calendar.md`: its commands are run, its tables and limits compared with what the code holds."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from fencepost.main import main
from fencepost.schedule_file import load_schedules
from runner.calendar import exclusions, jitter, timing, wall
from runner.calendar.expression import ALIASES, MAX_CHARS, parse

PAGE = Path(__file__).parents[3] / "docs" / "calendar.md"
TEXT = PAGE.read_text()
CONSOLE = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [
    tuple(part.partition("\n")[::2]) for block in CONSOLE for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
]


@pytest.mark.parametrize(("command", "answer"), COMMANDS)
def test_a_command_answers_what_the_page_says(command: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    assert words[0] == "fencepost"
    main(words[1:])
    told = capsys.readouterr()
    assert told.out + told.err == answer


def test_the_page_has_an_example_of_each_part() -> None:
    assert len(COMMANDS) >= 9
    for word in ("--dst-gap", "--dst-fold", "--exclude", "--explain", "LW"):
        assert any(word in command for command, _ in COMMANDS), word


def test_what_python_says_on_the_page_is_so() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_the_page_names_each_alias_and_what_it_stands_for() -> None:
    rows = re.findall(r"^\| (`@.*?) \| `(.*?)` \|$", TEXT, re.MULTILINE)
    told = {name: meaning for names, meaning in rows for name in re.findall(r"`(@\w+)`", names)}
    assert told == dict(ALIASES)


def test_what_the_table_of_expressions_writes_can_be_meant() -> None:
    section = TEXT.partition("## Expressions")[2].partition("\n\nSpecial days")[0]
    for forms, meaning in re.findall(r"^\| (`[^@].*?) \| (.*?) \|$", section, re.MULTILINE):
        for form in re.findall(r"`(.*?)`", forms):
            weekly = "day of week" in meaning or "#" in form or form in {"sun", "sat"}
            parse(f"0 0 * * {form}" if weekly else f"0 0 1 {form} *" if form in {"jan", "dec"} else _dated(form))


def _dated(form: str) -> str:
    return f"{form} * * * *" if "/" in form or form == "*" else f"0 0 {form} * *"


@pytest.mark.parametrize("cron", ["0 12 LW * *", "*/20 * * * * *", "@Daily", "0 9 * * mon#2,friL"])
def test_a_schedule_file_takes_every_expression_today(tmp_path: Path, cron: str) -> None:
    path = tmp_path / "schedules.toml"
    path.write_text(
        f'[[schedule]]\nnamespace = "a"\nname = "b"\ncron = "{cron}"\ncommand = {{ argv = ["/bin/true"] }}\n'
    )
    (schedule,) = load_schedules(path).schedules
    assert schedule.cron == cron


def test_limits_are_the_codes() -> None:
    limits = TEXT.partition("## Limits")[2]
    assert f"at most {MAX_CHARS:,} characters" in limits
    assert f"at most {jitter.LONGEST_MS // 3_600_000} h" in limits
    assert f"{exclusions.MAX_ENTRIES:,} entries of at most {exclusions.MAX_CHARS} characters" in limits
    assert f"{exclusions.MAX_DATES:,} dates" in limits
    assert f"years {exclusions.YEARS[0]} to {exclusions.YEARS[-1]}" in limits
    assert f"{wall.SEARCH_DAYS // 366} years" in limits
    assert f"behind {timing.MAX_SKIPS} skips" in limits
