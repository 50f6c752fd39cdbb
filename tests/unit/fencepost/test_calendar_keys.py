"""What a schedule file says of the calendar: every key as the voter reads it, every mistake by file, line, schedule, key."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.faults import Mistake
from fencepost.schedule_file import load_schedules
from runner.management.bodies import ApplyBody, CalendarBody, CatchUpBody, ScheduleBody, TriggerBody
from worker.protocol import CommandTarget

HEAD = '[[schedule]]\nnamespace = "demo"\nname = "close"\ncommand.argv = ["true"]\n'
WHOLE = f"""{HEAD}timezone = "Europe/Berlin"
start = "2026-01-02T00:00"
end = "2026-12-31T00:00:00Z"
max_runs = 7
dst_gap = "skip"
dst_fold = "both"
exclude = ["sun", "calendar:de"]
catch_up = {{ window = "1d", policy = "all", limit = 10 }}
jitter = "10m"
overlap = "allow"
max_concurrent = 3
[[schedule.trigger]]
cron = "0 9 * * mon"
[[schedule.trigger]]
every = "6h"
[[schedule.trigger]]
at = ["2026-02-01T12:00", "2026-02-02T12:00"]

[[calendar]]
name = "de"
dates = ["2026-10-03"]
file = "lists/holidays.toml"
"""


def written(folder: Path, text: str, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.toml").write_text(content)
    path = folder / "schedules.toml"
    path.write_text(text)
    return path


def test_the_whole_calendar_as_the_body_that_the_voter_reads(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "holidays.toml").write_text('dates = [\n  "2026-12-24..2026-12-26",\n]\n')
    body = load_schedules(written(tmp_path, WHOLE))
    assert body.calendars == (CalendarBody("de", ("2026-10-03", "2026-12-24..2026-12-26")),)
    assert body.schedules == (
        ScheduleBody(
            namespace="demo",
            name="close",
            triggers=(
                TriggerBody(cron="0 9 * * mon"),
                TriggerBody(every_s=21_600),
                TriggerBody(at=("2026-02-01T12:00", "2026-02-02T12:00")),
            ),
            timezone="Europe/Berlin",
            start="2026-01-02T00:00",
            end="2026-12-31T00:00:00Z",
            max_runs=7,
            dst_gap="skip",
            dst_fold="both",
            exclude=("sun", "calendar:de"),
            catch_up=CatchUpBody(86_400, "all", 10),
            jitter_ms=600_000,
            overlap="allow",
            max_concurrent=3,
            command=CommandTarget(("true",)),
        ),
    )
    assert msgspec.json.decode(msgspec.json.encode(body), type=ApplyBody) == body


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ('at = ["2026-01-01T00:00Z", "2026-01-01T01:00+01:00"]', "5: schedule demo/close: at: at '2026-01-01T01:00+01:00' is the same"),
        ("at = []", "5: schedule demo/close: at: 0 instants are out of range; 1 to 1000 is right"),
        ("at = 5", '5: schedule demo/close: "at": expected text or a list'),
        ('trigger = [{ cron = "* * * * *", every = "1s" }]', "5: schedule demo/close: trigger: write exactly one of cron, every and at"),
        ('[[schedule.trigger]]\nevery = "1s"\n[[schedule.trigger]]\ncron = "* *"', "8: schedule demo/close: trigger.cron: cron '* *' has 2 fields"),
        ('[[schedule.trigger]]\nevry = "1s"', '6: schedule demo/close: unknown key "evry"; did you mean "every"?'),
        ('[[schedule.trigger]]\nevery = "1.5s"', '6: schedule demo/close: trigger.every: "1.5s": a length of time is'),
        ('every = "1s"\n[[schedule.trigger]]\nevery = "1s"', "1: schedule demo/close: write exactly one of cron"),
        ('every = "1s"\nmax_runs = 0', "6: schedule demo/close: max_runs: 0 is out of range; 1 to 2147483647 is right"),
        (f'every = "1s"\nmax_runs = {"9" * 4_000}', "6: schedule demo/close: max_runs: a number of so many digits is out"),
        ('every = "1s"\nstart = "noon"', "6: schedule demo/close: start: start 'noon' is not an instant; write"),
        ('every = "1s"\nend = "2026-01-01T00:00Z"\nstart = "2026-01-02T00:00Z"', "6: schedule demo/close: end: end '2026-01-01T00:00Z' is before start"),
        ('every = "1s"\ndst_gap = "nxt"', '6: schedule demo/close: dst_gap = "nxt"; did you mean "next"?'),
        ('every = "1s"\nexclude = ["someday"]', "6: schedule demo/close: exclude: exclude 'someday' is not an exclusion"),
        ('every = "1s"\nexclude = ["calendar:dee"]\n[[calendar]]\nname = "de"\ndates = []', "6: schedule demo/close: exclude: there is no calendar 'dee'; did you mean 'de'?"),
        ('every = "1s"\ncatch_up = { window = "31d" }', "6: schedule demo/close: catch_up.window: 2678400 s is out of range; 1 s to 30 d is right"),
        ('every = "1s"\ncatch_up = { policy = "al" }', '6: schedule demo/close: policy = "al"; did you mean "all"?'),
        ('every = "1s"\ncatch_up = { limit = 0 }', "6: schedule demo/close: catch_up.limit: 0 is out of range; 1 to 1000 is right"),
        ('every = "1s"\njitter = "25h"', "6: schedule demo/close: jitter: 90000000 ms is out of range; 0 s to 24 h is right"),
        ('every = "1s"\nmax_concurrent = 3', '6: schedule demo/close: max_concurrent: 3 goes with overlap = "allow" only, and it is "skip"'),
        ('every = "1s"\noverlap = "queue_al"', '6: schedule demo/close: overlap = "queue_al"; did you mean "queue_all"?'),
        ('every = "1s"\n[[calendar]]\nname = "d e"\ndates = []', '7: calendar: "d e" is not a name'),
        ('every = "1s"\n[[calendar]]\nname = "de"', '6: calendar de: write dates = ["2026-12-25"], file ='),
        ('every = "1s"\n[[calendar]]\nname = "de"\ndates = []\n[[calendar]]\nname = "de"\ndates = []', "10: calendar de: it stands twice; remove or rename one"),
        ('every = "1s"\n[[calendar]]\nname = "de"\ndates = ["sat"]', "8: calendar de: dates: 'sat' is no date; a calendar holds 2026-12-25 and"),
        ('every = "1s"\n[[calendar]]\nname = "de"\nfile = "../h.toml"', '8: calendar de: file: "../h.toml" is not a file beside this one; write its name'),
        ('every = "1s"\n[[calendar]]\nname = "de"\nfile = "/dev/zero"', '8: calendar de: file: "/dev/zero" is not a file beside this one'),
        ('every = "1s"\n[[calendar]]\nname = "de"\nfile = "a\\u0000b"', "8: calendar de: file: "),
        ('every = "1s"\n[[calendar]]\nname = "de"\nfile = ""', '8: calendar de: file: "" is not a file beside this one'),
        (f'every = "1s"\n[[calendar]]\nname = "de"\nfile = "{"x" * 5_000}"', "8: calendar de: file: "),
        ('every = "1s"\n[[calendar]]\nname = "de"\nfile = "none.toml"', '8: calendar de: file: "none.toml" is not a file beside this one'),
        ('every = "1s"\n[[calendar]]\nname = "de"\nfile = "broken.toml"', "8: calendar de: file: "),
    ],
)  # fmt: skip
def test_an_error_says_file_line_schedule_key_and_what_is_right(tmp_path: Path, rest: str, words: str) -> None:
    path = written(tmp_path, HEAD + rest, broken="dates = [")
    with pytest.raises(Mistake) as caught:
        load_schedules(path)
    text = str(caught.value).removeprefix(f"{path}:")
    assert text.startswith(words), text
    assert text.isprintable()
    assert len(text) < 1_000


def test_a_mistake_in_a_list_of_dates_names_that_file_and_its_line(tmp_path: Path) -> None:
    own = '[[calendar]]\nname = "de"\ndates = ["2026-01-01"]\nfile = "holidays.toml"\n'
    path = written(tmp_path, HEAD + 'every = "1s"\n' + own, holidays='# 2026\ndates = ["2026-01-01", "2026-02-30"]')
    with pytest.raises(Mistake, match=r"holidays\.toml:2: calendar de: dates: '2026-02-30' names no date"):
        load_schedules(path)
    written(tmp_path, "", holidays='names = ["x"]')
    path.write_text(HEAD + 'every = "1s"\n' + own)
    with pytest.raises(Mistake, match=r'holidays\.toml:1: unknown key "names"; .*dates'):
        load_schedules(path)


def test_a_list_of_dates_stays_in_its_folder_and_is_a_plain_file_of_bounded_size(tmp_path: Path) -> None:
    folder = tmp_path / "schedules"
    folder.mkdir()
    (tmp_path / "outside.toml").write_text("dates = []")
    (folder / "link.toml").symlink_to(tmp_path / "outside.toml")
    (folder / "circle.toml").symlink_to(folder / "circle.toml")
    os.mkfifo(folder / "pipe.toml")
    (folder / "long.toml").write_text("dates = [] #" + "x" * (1 << 20))
    for name, words in (
        ("link.toml", "leads out of the folder"),
        ("circle.toml", "circle.toml"),
        ("pipe.toml", "is not a file beside this one"),
        ("long.toml", "longer than 1048576 bytes"),
        (".", "is not a file beside this one"),
    ):
        path = written(folder, f'{HEAD}every = "1s"\n[[calendar]]\nname = "de"\nfile = "{name}"\n')
        with pytest.raises(Mistake, match=words):
            load_schedules(path)
    (folder / "near.toml").write_text('dates = ["2026-01-01"]')
    (folder / "link.toml").unlink()
    (folder / "link.toml").symlink_to("near.toml")
    path = written(folder, f'{HEAD}every = "1s"\n[[calendar]]\nname = "de"\nfile = "link.toml"\n')
    assert load_schedules(path).calendars == (CalendarBody("de", ("2026-01-01",)),)


VALUES = st.one_of(
    st.sampled_from(['"1s"', '"all"', '"allow"', '"calendar:de"', '["sat,sun"]', '"2026-03-29T02:30"', '"* * * * *"']),
    st.integers(-(2**70), 2**70).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=("Cc",)), max_size=20).map('"{}"'.format),
    st.lists(st.integers(-5, 5), max_size=3).map(str),
    st.sampled_from(["{}", "[]", "[[]]", "true", "nan", "2026-01-01", '{ window = "1s" }', '[{ every = "1s" }, { at = [] }]']),
)  # fmt: skip
KEYS = (*(field.name for field in msgspec.structs.fields(ScheduleBody)), "every", "jitter", "trigger", "retention")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
    st.one_of(st.none(), VALUES),
    st.one_of(st.none(), VALUES),
)
def test_whatever_a_file_says_is_a_body_or_one_printable_line(
    tmp_path: Path, said: dict[str, str], dates: str | None, file: str | None
) -> None:
    lines = [f"{key} = {value}" for key, value in said.items() if key not in {"namespace", "name", "command"}]
    calendar = [f"{key} = {value}" for key, value in (("dates", dates), ("file", file)) if value is not None]
    text = "\n".join([HEAD, *lines, "[[calendar]]", 'name = "de"', *calendar])
    path = written(tmp_path, text)
    try:
        body = load_schedules(path)
    except Mistake as fault:
        assert str(fault).isprintable()  # noqa: PT017 - what is not raised is checked below
        return
    assert msgspec.json.decode(msgspec.json.encode(body), type=ApplyBody) == body
