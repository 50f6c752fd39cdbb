from pathlib import Path

import msgspec
import pytest

from fencepost.faults import Mistake
from fencepost.schedule_file import load_schedules
from runner.management.bodies import ApplyBody, PoolBody, RetryBody, ScheduleBody
from worker.protocol import CommandTarget

WHOLE = """\
[[pool]]
name = "reports"
limit = 4

[[schedule]]
namespace = "demo"
name = "ledger-close"
cron = "*/1 * * * *"
timezone = "Europe/Berlin"
overlap = "skip"
pool = "reports"
on_unknown = "hold"
retry = { attempts = 3, backoff = "2s", factor = 1.5, max = "1m", on_exit_codes = [75, -9] }
retention = "7d"
[schedule.command]
argv = ["sh", "-c", "echo $FENCEPOST_RUN_ID >> out.txt"]
env = { LEVEL = "1" }
cwd = "/srv"
timeout = "30s"

[[schedule]]
namespace = "demo"
name = "heartbeat"
every = "2s"
command = { argv = ["true"] }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "schedules.toml"
    path.write_text(text)
    return path


def test_a_whole_file_as_the_body_that_the_voter_reads(tmp_path: Path) -> None:
    body = load_schedules(written(tmp_path, WHOLE))
    assert body.pools == (PoolBody("reports", 4),)
    assert body.schedules == (
        ScheduleBody(
            namespace="demo",
            name="ledger-close",
            cron="*/1 * * * *",
            timezone="Europe/Berlin",
            pool="reports",
            retry=RetryBody(3, 2_000, 1.5, 60_000, (75, -9)),
            retention_s=7 * 86_400,
            command=CommandTarget(
                ("sh", "-c", "echo $FENCEPOST_RUN_ID >> out.txt"), {"LEVEL": "1"}, "/srv", timeout_ms=30_000
            ),
        ),
        ScheduleBody(namespace="demo", name="heartbeat", every_s=2, command=CommandTarget(("true",))),
    )
    assert msgspec.json.decode(msgspec.json.encode(body), type=ApplyBody) == body


def test_a_one_shot_goes_to_the_voter_as_it_is_written(tmp_path: Path) -> None:
    text = WHOLE.replace('every = "2s"', 'at = "2026-12-01T10:00:00"\ntimezone = "Asia/Tokyo"')
    (_, one) = load_schedules(written(tmp_path, text)).schedules
    assert (one.cron, one.every_s, one.at, one.timezone) == (None, None, "2026-12-01T10:00:00", "Asia/Tokyo")


def test_pools_alone_are_enough(tmp_path: Path) -> None:
    assert load_schedules(written(tmp_path, "[[pool]]\nname = 'a'\nlimit = 0")).pools == (PoolBody("a", 0),)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("timezone =", "timezon =", '9: schedule demo/ledger-close: unknown key "timezon"; did you mean "timezone"?'),
        ('"Europe/Berlin"', '"Europe/Berln"', "9: schedule demo/ledger-close: timezone: timezone 'Europe/Berln' is not"),
        ('"*/1 * * * *"', '"*/1 * * *"', "8: schedule demo/ledger-close: cron: cron '*/1 * * *' has 4 fields"),
        ('"*/1 * * * *"', '"0 0 30 2 *"', "8: schedule demo/ledger-close: cron: "),
        ('"*/1 * * * *"', "60", '8: schedule demo/ledger-close: "cron": expected text'),
        ('overlap = "skip"', 'overlap = "skp"', '10: schedule demo/ledger-close: overlap = "skp"; did you mean "skip"?'),
        ('on_unknown = "hold"', 'on_unknown = "retry"', '12: schedule demo/ledger-close: on_unknown = "retry"; right would'),
        ("{ attempts = 3", "{ attempts = 0", '13: schedule demo/ledger-close: "attempts": expected a whole number >= 1'),
        ("{ attempts = 3", "{ attempt = 3", '13: schedule demo/ledger-close: unknown key "attempt"; did you mean "att'),
        ('pool = "reports"', 'pool = "Reports"', '11: schedule demo/ledger-close: pool: "Reports" is not a name'),
        ('name = "ledger-close"', 'name = "ledger close"', '7: schedule demo/ledger close: name: "ledger close" is not'),
        ('name = "ledger-close"', 'name = "heartbeat"', "23: schedule demo/heartbeat stands in the file twice"),
        ('name = "ledger-close"\n', "", '5: schedule demo: "name" is missing'),
        ('namespace = "demo"\nname = "ledger-close"\n', "", '5: schedule number 1: "namespace" is missing'),
        ('namespace = "demo"', 'namespace = "\\u001b[2J"', '6: schedule "\ufffd[2J/ledger-close": namespace: "\ufffd[2J" is'),
        ('timeout = "30s"', "timeout = 30", '19: schedule demo/ledger-close: "timeout": expected text'),
        ('timeout = "30s"', 'timeout = "30"', '19: schedule demo/ledger-close: command.timeout: "30": a length of time is'),
        ('every = "2s"', 'every = "1500ms"', "24: schedule demo/heartbeat: every: every is in whole seconds"),
        ('every = "2s"', 'every = "2s"\ncron = "* * * * *"', "21: schedule demo/heartbeat: write exactly one of cron"),
        ('every = "2s"\n', "", "21: schedule demo/heartbeat: write exactly one of cron"),
        ('every = "2s"', 'at = "tomorrow"', "24: schedule demo/heartbeat: at: at 'tomorrow' is not an instant; write 2026-12-01T"),
        ('every = "2s"', 'at = "2026-03-29T02:30"\ntimezone = "Europe/Berlin"', "24: schedule demo/heartbeat: at: at '2026-03-29T02"),
        ('every = "2s"', 'every = "2s"\nat = "2026-12-01T10:00:00Z"', "21: schedule demo/heartbeat: write exactly one of cron"),
        ('every = "2s"', "at = 2026-12-01T10:00:00Z", '24: schedule demo/heartbeat: "at": expected text'),
        ('argv = ["true"]', "argv = []", '25: schedule demo/heartbeat: "argv": expected a list of length >= 1'),
        ('argv = ["true"]', 'argv = ["true", "a\\u0000"]', "25: schedule demo/heartbeat: command.argv: an argument holds a NUL"),
        ('argv = ["true"]', 'argv = [""]', "25: schedule demo/heartbeat: command.argv: "),
        ('argv = ["true"]', 'argv = ["true"], env = { "A=B" = "1" }', "25: schedule demo/heartbeat: command.env.A=B: "),
        ('argv = ["true"]', 'argv = ["true"], env = { FENCEPOST_RUN_ID = "1" }', "25: schedule demo/heartbeat: command.env."),
        ('cwd = "/srv"', 'cwd = ""', "18: schedule demo/ledger-close: command.cwd: it is not a path"),
        ('LEVEL = "1"', f'LEVEL = "{"x" * 65_536}"', "15: schedule demo/ledger-close: command: argv and env are longer"),
        ("factor = 1.5", "factor = 0.5", "13: schedule demo/ledger-close: retry.factor: 0.5 is out of range; 1 to 100"),
        ("factor = 1.5", "factor = 100.5", "13: schedule demo/ledger-close: retry.factor: 100.5 is out of range; 1 to"),
        ("factor = 1.5", "factor = nan", "13: schedule demo/ledger-close: retry.factor: nan is out of range; 1 to"),
        ("factor = 1.5", "factor = 1.0005", "13: schedule demo/ledger-close: retry.factor: 1.0005 has more than three"),
        ("factor = 1.5", 'factor = "2"', '13: schedule demo/ledger-close: "factor": expected '),
        ('backoff = "2s"', 'backoff = "2m"', "13: schedule demo/ledger-close: retry.backoff: the first pause is longer"),
        ('backoff = "2s"', "backoff = 2", '13: schedule demo/ledger-close: "backoff": expected text'),
        ('max = "1m"', 'max = "8d"', "13: schedule demo/ledger-close: retry.max: it is longer than 7 days"),
        ("[75, -9]", "[0]", "13: schedule demo/ledger-close: retry.on_exit_codes: 0 is no exit code of a failure"),
        ("[75, -9]", "[256]", "13: schedule demo/ledger-close: retry.on_exit_codes: 256 is no exit code"),
        ("[75, -9]", "[]", '13: schedule demo/ledger-close: "on_exit_codes": expected a list of length >= 1'),
        ('"7d"', '"1500ms"', "14: schedule demo/ledger-close: retention: retention is in whole seconds"),
        ('"7d"', '"3651d"', '14: schedule demo/ledger-close: retention: "3651d": a length of time is'),
        ('"7d"', '"forever"', '14: schedule demo/ledger-close: retention: "forever": a length of time is'),
        ("limit = 4", "limit = -1", '3: pool reports: "limit": expected a whole number >= 0'),
        ('name = "reports"', 'name = "Reports"', '2: pool: "Reports" is not a name'),
        ("[[pool]]", '[[pool]]\nname = "reports"\nlimit = 1\n[[pool]]', "5: pool reports stands in the file twice"),
        ("[[pool]]", "[[pools]]", '1: unknown key "pools"; did you mean "pool"?'),
        ("command = {", "command = 3 #", '25: schedule demo/heartbeat: "command": expected a table'),
        ("[[pool]]", "[pool]", '1: "pool": expected a list, got a table'),
        ("limit = 4", "limit = ", "3: Invalid value"),
    ],
)  # fmt: skip
def test_an_error_says_file_line_schedule_key_and_what_is_right(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in WHOLE
    path = written(tmp_path, WHOLE.replace(old, new, 1))
    with pytest.raises(Mistake) as caught:
        load_schedules(path)
    text = str(caught.value).removeprefix(f"{path}:")
    assert text.startswith(words), text
    assert text.isprintable()


def test_a_file_that_names_nothing_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="names nothing"):
        load_schedules(written(tmp_path, "# later\n"))


def test_a_file_of_too_many_schedules_is_a_mistake(tmp_path: Path) -> None:
    one = "[[schedule]]\nnamespace = 'a'\nname = 'n{}'\nevery = '1s'\ncommand.argv = ['true']\n"
    with pytest.raises(Mistake, match=r":5001: more than 1000 schedules"):
        load_schedules(written(tmp_path, "".join(one.format(i) for i in range(1_001))))


def test_a_file_of_too_many_pools_is_a_mistake(tmp_path: Path) -> None:
    one = "[[pool]]\nname = 'p{}'\nlimit = 1\n"
    with pytest.raises(Mistake, match=r":301: more than 100 pools"):
        load_schedules(written(tmp_path, "".join(one.format(i) for i in range(101))))
