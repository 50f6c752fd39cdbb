"""`docs/schedule-file.md` and the README's example are fed to the loader that reads people's files."""

import re
from pathlib import Path

import msgspec
import pytest

from fencepost import file_forms, toml_file
from fencepost.duration import milliseconds
from fencepost.schedule_file import load_schedules
from runner.calendar.exclusions import MAX_DATES, MAX_ENTRIES
from runner.calendar.trigger import MAX_INSTANTS, MAX_TRIGGERS
from runner.checkpoint.limits import MAX_CALENDARS, MAX_JITTER_MS, MAX_SCHEDULES, MAX_WAITING, MAX_WINDOW_S
from runner.checkpoint.scheduling import DEFAULT_POOL_LIMIT
from runner.management.defining import MAX_TARGET_BYTES
from runner.management.policies import DEFAULT_CONCURRENT, DEFAULT_QUEUED
from runner.management.triggering import MAX_CARRIED
from worker.engine.command import PASSED_ON
from worker.engine.process import Limits

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "schedule-file.md").read_text()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", PAGE + (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
FORMS = {
    "## `[[schedule]]`": file_forms.ScheduleForm,
    "### `[[schedule.trigger]]`": file_forms.TriggerForm,
    "### `catch_up`": file_forms.CatchUpForm,
    "### `retry`": file_forms.RetryForm,
    "### `[schedule.command]`": file_forms.CommandForm,
    "## `[[pool]]`": file_forms.PoolForm,
    "## `[[calendar]]`": file_forms.CalendarForm,
}
NEEDS = {"max_concurrent": {"overlap": '"allow"'}, "queue_limit": {"overlap": '"queue_all"'}}
ROW = re.compile(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) ?\|$", re.MULTILINE)


def rows(heading: str) -> dict[str, tuple[str, str]]:
    """Return the default and the example of each key of a table."""
    section = re.split(r"^##", PAGE.partition(f"{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return {key: (default.strip(), example.strip()) for key, _, default, example in ROW.findall(section)}


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_loads(tmp_path: Path, text: str) -> None:
    path = tmp_path / "example.toml"
    path.write_text(text)
    body = load_schedules(path)
    assert body.schedules or body.pools


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 9


@pytest.mark.parametrize("heading", FORMS)
def test_every_key_has_its_row_and_no_other(heading: str) -> None:
    fields = msgspec.structs.fields(FORMS[heading])
    assert rows(heading).keys() == {field.encode_name for field in fields}
    required = {field.encode_name for field in fields if field.required}
    assert {key for key, (default, _) in rows(heading).items() if default == "required"} == required


@pytest.mark.parametrize("heading", FORMS)
def test_the_defaults_and_examples_of_the_tables_are_right(tmp_path: Path, heading: str) -> None:
    base = {"namespace": '"a"', "name": '"b"', "every": '"1s"', "pool": '"default"', "command": '{ argv = ["true"] }'}
    schedule = "[[schedule]]\nnamespace = 'a'\nname = 'b'\ncommand = { argv = ['true'] }\n"
    bases = {
        "### `[[schedule.trigger]]`": (f"{schedule}[[schedule.trigger]]", {"every": '"1s"'}),
        "### `catch_up`": (f"{schedule}every = '1s'\n[schedule.catch_up]", {}),
        "## `[[calendar]]`": (f"{schedule}every = '1s'\n[[calendar]]", {"name": '"a"', "dates": "[]"}),
        "## `[[schedule]]`": ("[[schedule]]", base),
        "### `retry`": ("[[schedule]]\n" + "\n".join(f"{k} = {v}" for k, v in base.items()) + "\n[schedule.retry]", {}),
        "### `[schedule.command]`": (
            "[[schedule]]\nnamespace = 'a'\nname = 'b'\nevery = '1s'\n[schedule.command]",
            {"argv": '["true"]'},
        ),
        "## `[[pool]]`": ("[[pool]]", {"name": '"a"', "limit": "1"}),
    }
    head, keys = bases[heading]
    (tmp_path / "holidays-de.toml").write_text('dates = ["2026-10-03"]')

    def loaded(stated: dict[str, str]) -> object:
        path = tmp_path / "row.toml"
        path.write_text(head + "\n" + "\n".join(f"{key} = {value}" for key, value in stated.items()))
        return load_schedules(path)

    for key, (default, example) in rows(heading).items():
        gone = {key, "every"} if key in {"cron", "at", "trigger"} else {key}
        without = {name: value for name, value in keys.items() if name not in gone}
        if default.startswith("`"):
            assert loaded(without) == loaded({**without, key: default.strip("`")})
        if example:
            loaded({**without, **NEEDS.get(key, {}), key: example.strip("`")})


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert toml_file.MAX_BYTES == 1 << 20
    assert "at most 1 MiB" in PAGE
    assert f"at most {MAX_SCHEDULES:,} schedules" in PAGE
    assert f"with a limit of {DEFAULT_POOL_LIMIT};" in PAGE
    assert f"at most {MAX_TARGET_BYTES >> 10} KiB" in PAGE
    assert f"SIGKILL {Limits().stop_grace_s:.0f} s later" in PAGE
    assert f"sees `{'`, `'.join(PASSED_ON[:-1])}` and `{PASSED_ON[-1]}`" in PAGE
    assert f"up to {MAX_INSTANTS:,}: RFC 3339" in PAGE
    assert f"up to {MAX_TRIGGERS} tables" in PAGE
    assert f"up to {MAX_ENTRIES:,} dates" in PAGE
    assert f"ranges of dates, at most {MAX_DATES:,}" in PAGE
    assert f"At most {MAX_CALENDARS} calendars" in PAGE
    assert f"at most {MAX_CARRIED:,} dates in all" in PAGE
    assert f"where it is {DEFAULT_CONCURRENT} by default" in PAGE
    assert f"where it is {DEFAULT_QUEUED} by default" in PAGE
    assert (MAX_WAITING, MAX_WINDOW_S, MAX_JITTER_MS) == (1_000, 30 * 86_400, 24 * 3_600_000)
    assert milliseconds("3650d")
