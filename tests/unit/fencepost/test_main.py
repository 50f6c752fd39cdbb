import json
import os
import shlex
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from fencepost.main import main
from tests.unit.fencepost.scripted_voter import ScriptedVoter, answers, closed_url, hangs_up, problem

KEY = "01890a5d-ac96-774b-bcce-b302099a8057"
SCHEDULES = '[[schedule]]\nnamespace = "demo"\nname = "close"\nevery = "2s"\ncommand.argv = ["true"]\n'
ATTEST = ["attest", "r1", "2", "--attester", "Ada", "--statement", "the host is gone", "--evidence", "ticket 7"]
PREVIEW = {"dry_run": True, "creates": [], "changes": [], "unchanged": ["demo/close"], "pools": []}


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_CONFIG", raising=False)


def operator(folder: Path, *urls: str) -> str:
    token = folder / "operator.token"
    token.write_text("a-token-that-must-stay-unseen\n")
    token.chmod(0o600)
    path = folder / "operator.toml"
    path.write_text(f'management_urls = {json.dumps(urls)}\ncredential = "operator.token"\n')
    return str(path)


def schedules(folder: Path, text: str = SCHEDULES) -> str:
    path = folder / "schedules.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("command", "line", "body"),
    [
        (["trigger", "demo/close"], "/v1/trigger", {"namespace": "demo", "name": "close"}),
        (["enable", "demo/close"], "/v1/enable", {"namespace": "demo", "name": "close"}),
        (["disable", "demo/close"], "/v1/disable", {"namespace": "demo", "name": "close"}),
        (["delete", "demo/close"], "/v1/delete", {"namespace": "demo", "name": "close"}),
        (["cancel", "r1"], "/v1/cancel", {"run_id": "r1"}),
        (["freeze"], "/v1/freeze", {}),
        (["unfreeze"], "/v1/unfreeze", {}),
    ],
)
def test_a_change_under_the_key_that_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], line: str, body: dict[str, str]
) -> None:
    with ScriptedVoter(answers(200, {"state": "Cancelling", "again": False})) as voter:
        assert main([*command, "--key", KEY, "--config", operator(tmp_path, voter.url)]) == 0
    assert voter.heard[0].line == f"POST {line} HTTP/1.1"
    assert voter.heard[0].headers["idempotency-key"] == KEY
    assert json.loads(voter.heard[0].body) == body
    assert capsys.readouterr().out == "done\nstate: Cancelling\n"


def test_each_change_without_a_key_gets_a_fresh_one(tmp_path: Path) -> None:
    with ScriptedVoter(answers(200, {}), answers(200, {})) as voter:
        for _ in range(2):
            assert main(["cancel", "r1", "--config", operator(tmp_path, voter.url)]) == 0
    keys = [uuid.UUID(heard.headers["idempotency-key"]) for heard in voter.heard]
    assert [key.version for key in keys] == [7, 7]
    assert keys[0] != keys[1]


def test_a_lost_reply_ends_with_3_and_the_key_to_repeat_it_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedVoter(hangs_up) as voter:
        assert main(["cancel", "r1", "--config", operator(tmp_path, voter.url)]) == 3
    key = voter.heard[0].headers["idempotency-key"]
    said = capsys.readouterr()
    assert said.err.endswith(f"\noutcome unknown; repeat with --key {key}\n")
    assert said.out == ""


def test_a_disk_is_named_when_it_is_given_and_what_was_accepted_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"voter": "node3", "disk_id": "e" * 32, "entry": 17}
    with ScriptedVoter(answers(200, done), answers(200, done)) as voter:
        for words in (["--disk", "e" * 32], []):
            assert main(["voter", "replace", "node3", *words, "--config", operator(tmp_path, voter.url)]) == 0
    assert [heard.line for heard in voter.heard] == ["POST /v1/voters/replace HTTP/1.1"] * 2
    assert [json.loads(heard.body) for heard in voter.heard] == [
        {"voter": "node3", "disk_id": "e" * 32},
        {"voter": "node3", "disk_id": None},
    ]
    assert f"disk_id: {'e' * 32}\nentry: 17" in capsys.readouterr().out


def test_an_attestation_names_the_row_revision_that_was_read(tmp_path: Path) -> None:
    attempts = [{"n": 1, "row_revision": 5}, {"n": 2, "row_revision": 9}]
    with ScriptedVoter(answers(200, {"attempts": attempts}), answers(200, {})) as voter:
        assert main([*ATTEST, "--config", operator(tmp_path, voter.url)]) == 0
    assert voter.heard[0].line == "GET /v1/runs/r1 HTTP/1.1"
    assert json.loads(voter.heard[1].body) == {
        "run_id": "r1",
        "attempt": 2,
        "attester": "Ada",
        "statement": "the host is gone",
        "evidence": "ticket 7",
        "row_revision": 9,
    }


def test_a_lost_attestation_is_repeated_as_the_same_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = answers(200, {"attempts": [{"n": 2, "row_revision": 9}]})
    with ScriptedVoter(read, hangs_up, answers(200, {})) as voter:
        config = operator(tmp_path, voter.url)
        assert main([*ATTEST, "--config", config]) == 3
        options = capsys.readouterr().err.strip().rpartition("repeat with ")[2].split()
        assert main([*ATTEST, "--config", config, *options]) == 0
    _, first, second = voter.heard
    assert (first.body, first.headers["idempotency-key"]) == (second.body, second.headers["idempotency-key"])


def test_an_attempt_that_is_not_there_is_not_attested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, {"attempts": []}), answers(200, ["x"])) as voter:
        assert main([*ATTEST, "--config", operator(tmp_path, voter.url)]) == 1
        assert "has no attempt 2" in capsys.readouterr().err
        assert main([*ATTEST, "--config", operator(tmp_path, voter.url)]) == 1
        assert "not in the form" in capsys.readouterr().err
    assert len(voter.heard) == 2


@pytest.mark.parametrize(
    ("found", "code"), [({}, 0), ({"creates": ["a/b"]}, 10), ({"changes": ["a/b"]}, 10), ({"pools": ["p"]}, 10)]
)
def test_a_dry_run_says_by_its_exit_code_whether_anything_would_change(
    tmp_path: Path, found: dict[str, list[str]], code: int
) -> None:
    with ScriptedVoter(answers(200, PREVIEW | found)) as voter:
        assert (
            main(["apply", "-f", schedules(tmp_path), "--dry-run", "--config", operator(tmp_path, voter.url)]) == code
        )
    assert voter.heard[0].line == "POST /v1/apply?dry_run=true HTTP/1.1"


def test_a_bad_schedule_file_is_never_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = schedules(tmp_path, SCHEDULES + SCHEDULES.replace("every", "evry"))
    with ScriptedVoter() as voter:
        assert main(["apply", "-f", path, "--config", operator(tmp_path, voter.url)]) == 2
    assert (
        capsys.readouterr().err
        == f'fencepost: {path}:9: schedule demo/close: unknown key "evry"; did you mean "every"?\n'
    )


def test_reads_as_json_and_as_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = dict.fromkeys(["revision", "at", "actor", "run_id", "attempt", "op", "from", "to", "why"], "é")
    with ScriptedVoter(answers(200, [event]), answers(200, [event])) as voter:
        config = operator(tmp_path, voter.url)
        assert main(["events", "--json", "--run", "r1", "--config", config]) == 0
        assert json.loads(capsys.readouterr().out) == [event]
        assert main(["events", "--limit", "7", "--config", config]) == 0
        assert capsys.readouterr().out.startswith("REVISION  AT ")
    assert [heard.line for heard in voter.heard] == [
        "GET /v1/events?limit=50&run_id=r1 HTTP/1.1",
        "GET /v1/events?limit=7 HTTP/1.1",
    ]


def test_runs_of_one_schedule_in_one_state(tmp_path: Path) -> None:
    with ScriptedVoter(answers(200, [])) as voter:
        words = ["runs", "--schedule", "demo/close", "--state", "Unknown", "--limit", "3", "--json"]
        assert main([*words, "--config", operator(tmp_path, voter.url)]) == 0
    assert voter.heard[0].line == "GET /v1/runs?limit=3&schedule=demo%2Fclose&state=Unknown HTTP/1.1"


def test_a_stale_answer_is_printed_and_called_so_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, [], Fencepost_Stale="41")) as voter:
        assert main(["schedules", "--json", "--config", operator(tmp_path, voter.url)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("[]\n", 1)
    assert "applied index 41" in said.err


def test_a_list_that_goes_on_says_how_to_ask_for_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, [], Fencepost_Next="7.1.r1"), answers(200, []), answers(200, [])) as voter:
        config = ["--json", "--config", operator(tmp_path, voter.url)]
        assert main(["runs", "--limit", "1", *config]) == 0
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("[]\n", 1)
        assert "--before 7.1.r1" in said.err
        assert main(["runs", "--before", "7.1.r1", *config]) == 0
        assert main(["events", "--before", "7.0", *config]) == 0
        assert capsys.readouterr().err == ""
    assert [heard.line.split()[1] for heard in voter.heard[1:]] == [
        "/v1/runs?limit=50&before=7.1.r1",
        "/v1/events?limit=50&before=7.0",
    ]


def test_all_schedules_are_read_page_by_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = [answers(200, [1], Fencepost_Next="demo/a"), answers(200, [2], Fencepost_Stale="9"), answers(200, {})]
    with ScriptedVoter(*pages) as voter:
        assert main(["schedules", "--json", "--config", operator(tmp_path, voter.url)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == [1, 2]
    assert "applied index 9" in said.err, "one stale page makes the whole a stale answer"
    assert [heard.line.split()[1] for heard in voter.heard] == ["/v1/schedules", "/v1/schedules?after=demo%2Fa"]


@pytest.mark.parametrize("content", [{}, [1], "x", None, [{"namespace": "demo"}]])
def test_an_answer_of_another_form_ends_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object
) -> None:
    with ScriptedVoter(*[answers(200, content)] * 2) as voter:
        assert main(["status", "--config", operator(tmp_path, voter.url)]) == 1
        assert main(["show", "r1", "--config", operator(tmp_path, voter.url)]) == 1
    assert capsys.readouterr().err.count("not in the form") == 2


def test_a_run_id_from_a_person_stays_inside_the_path(tmp_path: Path) -> None:
    with ScriptedVoter(problem(404, "not_done")) as voter:
        assert main(["show", "../status?x=1\r\n", "--config", operator(tmp_path, voter.url)]) == 1
    assert voter.heard[0].line == "GET /v1/runs/..%2Fstatus%3Fx%3D1%0D%0A HTTP/1.1"


def test_the_configuration_comes_from_the_environment_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedVoter(answers(200, [])) as voter:
        monkeypatch.setenv("FENCEPOST_CONFIG", operator(tmp_path, voter.url))
        assert main(["schedules"]) == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["status"], 2, "no configuration: give --config"),
        (["status", "--config", "none.toml"], 2, "none.toml: cannot be read"),
        (["trigger", "demo", "--config", "operator.toml"], 2, '"demo" is no schedule: NAMESPACE/NAME'),
        (["trigger", "demo/a/b", "--config", "operator.toml"], 2, '"demo/a/b" is no schedule'),
        (["runs", "--schedule", "Demo/a", "--config", "operator.toml"], 2, '"Demo/a" is no schedule'),
        (["cancel", "r1", "--key", "again", "--config", "operator.toml"], 2, '--key "again" is not a key'),
        (["cancel", "r1", "--config", "operator.toml"], 1, "no voter can be connected to"),
        (["runner", "--config", "none.toml"], 2, "none.toml: cannot be read"),
        (["worker", "--config", "operator.toml"], 2, 'operator.toml:1: unknown key "management_urls"'),
        (["apply", "-f", "none.toml", "--config", "operator.toml"], 2, "none.toml: cannot be read"),
        (["next", "* * *"], 2, "3 fields"),
        (["next", "* * * * *", "--after", "soon"], 2, '--after "soon" is not an instant'),
        (["init", "c", "--host", "node4=10.0.0.1"], 2, "--host node4: name each of node1, node2, node3 at most once"),
        (["init", "operator.toml"], 1, "overwrites nothing"),
        (
            ["status", "--config", "no\n\udcffne.toml"],
            2,
            "no\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}ne.toml: cannot",
        ),
        (["trigger", "demo/\udcff", "--config", "operator.toml"], 2, "is no schedule"),
        (["next", "* * * * *", "--tz", "\udcff"], 2, "timezone"),
        (["next", "\udcff * * * *"], 2, "cron"),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    operator(tmp_path, closed_url())
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(words) == code
    err = capsys.readouterr().err
    assert err.startswith("fencepost: ")
    assert said in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["fly"],
        ["init"],
        ["init", "c", "--voters", "2"],
        ["init", "c", "--base-port", "65500"],
        ["init", "c", "--host", "node1"],
        ["init", "c", "--host", "node1=not a host"],
        ["runs", "--limit", "0"],
        ["runs", "--state", "Done"],
        ["attest", "r1", "x", "--attester", "a", "--statement", "b", "--evidence", "c"],
        ["attest", "r1", "1"],
        ["apply"],
        ["next", "* * * * *", "-n", "1e3"],
        ["runner"],
        ["voter"],
        ["voter", "prepare"],
        ["voter", "replace"],
        ["voter", "replace", "node3", "--disk", "\udcff"],
        ["trigger", "demo/close", "and\nmore\x1b[2J"],
        ["show", "\udcff"],
        ["cancel", "\udcff"],
        ["events", "--run", "\udcff"],
        [*ATTEST[:-1], "\udcff"],
        [*ATTEST[:-1], "ticket 7\n2026-01-01T00:00:00Z finish Succeeded"],
        [*ATTEST[:-1], "\x1b[2Jticket 7"],
        [*ATTEST[:-1], "ticket\u20287"],
        [*ATTEST[:-1], "\u202e7 tekcit"],
        [*ATTEST[:-1], "  "],
        [*ATTEST[:-1], "x" * 1_025],
        [*ATTEST, "--attester", "Ada\n"],
        [*ATTEST, "--statement", "\x00"],
    ],
)
def test_wrong_usage_ends_with_2_and_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("fencepost: ")
    assert "--help` shows what is right" in err
    assert (err.count("\n"), err[:-1].isprintable()) == (1, True)


def test_next_as_json_and_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["next", "0 0 29 2 *", "--after", "2096-03-01T00:00:00Z", "-n", "1"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"at": "2104-02-29T00:00:00Z", "local": "2104-02-29T00:00:00+00:00", "rule": None}
    ]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("AT ")


def test_init_then_a_client_that_finds_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = str(int(closed_url().rpartition(":")[2]) % 30_000 + 10_000)
    assert main(["init", str(tmp_path / "c"), "--voters", "1", "--base-port", base]) == 0
    assert "node1.toml" in capsys.readouterr().out


def test_a_trigger_that_overlap_skipped_is_not_called_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skipped = {"run_id": "r7", "state": "Skipped", "reason": "overlap", "again": False}
    with ScriptedVoter(answers(200, skipped)) as voter:
        assert main(["trigger", "demo/close", "--config", operator(tmp_path, voter.url)]) == 1
    said = capsys.readouterr()
    assert said.out == "on record, not launched\nrun_id: r7\nstate: Skipped\nreason: overlap\n"
    assert said.err.startswith("fencepost: not launched: run r7 is on record as Skipped (overlap: ")
    assert said.err.count("\n") == 1


def test_a_stale_dry_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, PREVIEW, Fencepost_Stale="41")) as voter:
        assert main(["apply", "-f", schedules(tmp_path), "--dry-run", "--config", operator(tmp_path, voter.url)]) == 0
    assert "stale: no owner was reached" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_what_a_voter_finds_wrong_in_a_schedule_file_is_said_with_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    path = schedules(tmp_path)
    unknown_pool = problem(422, "not_done", "Refused: no such pool (schedule demo/close, pool bgi).")
    with ScriptedVoter(unknown_pool) as voter:
        assert main(["apply", "-f", path, *words, "--config", operator(tmp_path, voter.url)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"fencepost: {path}: Refused: no such pool (schedule demo/close, pool bgi).")


def fencepost(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "fencepost", *words])


def in_shell(command: str) -> subprocess.CompletedProcess[bytes]:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    root = Path(__file__).parents[3]
    return subprocess.run(["bash", "-c", command], capture_output=True, cwd=root, env=buffered, check=False)


@pytest.mark.parametrize(
    ("lost", "said"),
    [(">/dev/full", "No space left"), (">&-", "Bad file descriptor"), ("> >(true)", None)],
    ids=["a full disk", "closed", "a reader that left"],
)
def test_a_change_that_was_done_is_done_whatever_becomes_of_its_output(
    tmp_path: Path, lost: str, said: str | None
) -> None:
    with ScriptedVoter(answers(200, {"run_id": "r7", "state": "Pending"})) as voter:
        words = ["trigger", "demo/close", "--key", KEY, "--config", operator(tmp_path, voter.url)]
        pause = "sleep 0.5; " if said is None else ""
        ended = in_shell(f"({pause}exec {fencepost(*words)}) {lost}")
    assert ended.returncode == 0, ended
    line = f"fencepost: done (key {KEY}), but the output could not be written: {said or 'Broken pipe'}"
    assert ended.stderr.decode().startswith(line)
    assert ended.stderr.count(b"\n") == 1


def test_an_outcome_is_told_by_the_exit_code_where_nothing_at_all_can_be_written(tmp_path: Path) -> None:
    done, lost = answers(200, {"run_id": "r7", "state": "Pending"}), hangs_up
    with ScriptedVoter(done, done, lost, answers(200, [])) as voter:
        config = ["--config", operator(tmp_path, voter.url)]
        trigger, read = fencepost("trigger", "demo/close", *config), fencepost("schedules", *config)
        codes = [in_shell(f"{command}").returncode for command in (f"{trigger} >/dev/full 2>&1", f"{trigger} >&- 2>&-")]
        codes += [in_shell(f"{command} >/dev/full 2>&1").returncode for command in (trigger, read)]
    assert codes == [0, 0, 3, 1]


def test_a_read_that_cannot_be_written_ends_with_1_and_one_line() -> None:
    ended = in_shell(f"{fencepost('next', '* * * * *')} >/dev/full")
    assert ended.returncode == 1
    assert ended.stderr == b"fencepost: the output could not be written: No space left on device\n"


def test_a_folder_that_was_created_is_created_whatever_becomes_of_the_output(tmp_path: Path) -> None:
    ended = in_shell(f"{fencepost('init', str(tmp_path / 'c'))} >/dev/full")
    assert ended.returncode == 0
    assert ended.stderr.decode().startswith(f"fencepost: created {tmp_path / 'c'}; the output could not be written")


def test_a_reader_that_went_away_is_no_reason_for_a_traceback() -> None:
    command = [sys.executable, "-m", "fencepost", "next", "* * * * *", "-n", "5000"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[3], env=buffered
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
