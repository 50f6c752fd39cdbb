"""`next` of a schedule, `backfill`, `clock accept`, `trigger --overlap` and `enable --catch-up` on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost import schedule_text
from fencepost.main import main
from fencepost.next import is_schedule
from tests.unit.fencepost.scripted_voter import ScriptedVoter, answers, hangs_up
from tests.unit.fencepost.test_main import KEY, operator

NAME = {"namespace": "demo", "name": "close"}
SPAN = ["--from", "2026-01-01", "--to", "2026-01-02T12:00:00+02:00"]
INSTANTS = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T10:00:00Z"}


@pytest.mark.parametrize(
    ("words", "path", "body"),
    [
        (["trigger", "demo/close", "--overlap", "allow"], "/v1/trigger", NAME | {"overlap": "allow"}),
        (["enable", "demo/close", "--catch-up"], "/v1/enable", NAME | {"catch_up": True}),
        (["backfill", "demo/close", *SPAN], "/v1/backfill", NAME | INSTANTS),
        (["clock", "accept"], "/v1/clock/accept", {}),
    ],
)
def test_a_change_is_sent_under_its_key_and_a_lost_reply_is_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], path: str, body: dict[str, Any]
) -> None:
    with ScriptedVoter(answers(200, {"again": False}), hangs_up) as voter:
        for code in (0, 3):
            assert main([*words, "--key", KEY, "--config", operator(tmp_path, voter.url)]) == code
    assert [heard.line for heard in voter.heard] == [f"POST {path} HTTP/1.1"] * 2
    assert {heard.headers["idempotency-key"] for heard in voter.heard} == {KEY}
    assert [json.loads(heard.body) for heard in voter.heard] == [body] * 2
    assert capsys.readouterr().err.endswith(f"outcome unknown; repeat with --key {KEY}\n")


def test_what_a_backfill_did_and_would_do_is_one_line_an_instant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = [
        {"scheduled_for": "2026-01-01T01:00:00Z", "why": "has_run"},
        {"scheduled_for": "2026-01-01T02:00:00Z", "why": "excluded"},
    ]
    told = {"dry_run": True, "creates": ["2026-01-01T00:00:00Z"], "left": left}
    done = {"schedule_id": "s1", "runs": ["r1"], "left": left, "again": False}
    with ScriptedVoter(answers(200, told), answers(200, told), answers(200, done)) as voter:
        words = ["backfill", "demo/close", *SPAN, "--config", operator(tmp_path, voter.url)]
        assert main([*words, "--dry-run"]) == 0
        assert capsys.readouterr().out.split("\n") == [
            "would create 2026-01-01T00:00:00Z",
            "would leave 2026-01-01T01:00:00Z alone (it has a run)",
            "would leave 2026-01-01T02:00:00Z alone (excluded)",
            "",
        ]
        assert main([*words, "--dry-run", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == told
        assert main(words) == 0
        assert "runs: r1\nleft: 2026-01-01T01:00:00Z alone (it has a run)\n" in capsys.readouterr().out
    assert [json.loads(heard.body).get("dry_run", False) for heard in voter.heard] == [True, True, False]
    assert "idempotency-key" not in voter.heard[0].headers


def test_next_of_a_schedule_asks_a_voter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"at": "2026-01-01T01:00:00Z", "local": "2026-01-01T02:00:00+01:00", "rule": "jitter"}
    explained = row | {"skipped": None, "because": "jitter delays the start by 1 s", "starts": "2026-01-01T01:00:01Z"}
    skipped = row | {"rule": "excluded", "skipped": "excluded", "because": "excluded from …"}
    with ScriptedVoter(answers(200, [row]), answers(200, [explained, skipped]), answers(200, [])) as voter:
        config = ["--config", operator(tmp_path, voter.url)]
        assert main(["next", "demo/close", *config]) == 0
        said = capsys.readouterr()
        assert said.out.split("\n")[0].split() == ["AT", "LOCAL", "RULE"]
        assert said.err == "fencepost: that is all: its trigger, its end or max_runs leaves no more\n"
        assert main(["next", "demo/close", "-n", "20", "--after", "2026-01-01", "--explain", *config]) == 0
        head, first, second, _ = capsys.readouterr().out.split("\n")
        assert head.split() == ["AT", "LOCAL", "RUNS", "STARTS", "RULE", "BECAUSE"]
        assert "yes   2026-01-01T01:00:01Z  jitter" in first
        assert "no    -" in second
        assert main(["next", "demo/close", "--json", *config]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out) == []
        assert said.err == "fencepost: none is left: its trigger, its end or max_runs leaves no more\n"
    assert [heard.line for heard in voter.heard[:2]] == [
        "GET /v1/next?namespace=demo&name=close&n=5 HTTP/1.1",
        "GET /v1/next?namespace=demo&name=close&n=20&after=2026-01-01T00%3A00%3A00Z&explain=true HTTP/1.1",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["next", "demo/close", "--tz", "UTC"], '--tz goes with a cron expression; schedule "demo/close" has its own'),
        (["next", "demo/close", "--exclude", "sun"], "--exclude goes with a cron expression"),
        (["next", "demo/close", "--dst-gap", "skip"], "--dst-gap goes with a cron expression"),
        (["next", "demo/close", "-n", "1001"], "-n 1001 is too many of a schedule; 1 to 1000 is right"),
        (["next", "Demo/close"], '"Demo/close" is no schedule'),
        (["next", "demo/close", "--after", "soon"], '--after "soon" is not an instant'),
        (["backfill", "demo/close", "--from", "soon", "--to", "2026-01-01"], '--from "soon" is not an instant'),
        (["backfill", "demo/close", "--from", "2026-01-01", "--to", "soon"], '--to "soon" is not an instant'),
        (["backfill", "demo/close", "--from", "2026-01-01"], "required: --to"),
        (["trigger", "demo/close", "--overlap", "skip"], "invalid choice: 'skip'"),
        (["clock", "set"], "invalid choice: 'set'"),
    ],
)
def test_wrong_usage_is_one_line_and_asks_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with ScriptedVoter() as voter:
        assert main([*words, "--config", operator(tmp_path, voter.url)]) == 2
    assert said in capsys.readouterr().err
    assert voter.heard == []


@pytest.mark.parametrize("what", ["*/5 * * * *", "@daily", "0 9 1/2 * *", "* * * * 1/2", "60"])
def test_a_cron_expression_is_no_schedule(what: str) -> None:
    assert not is_schedule(what)


def test_a_list_of_schedules_shows_every_kind_of_trigger() -> None:
    plain = {
        "namespace": "a",
        "name": "b",
        "cron": None,
        "every_s": None,
        "at": None,
        "timezone": "UTC",
        "enabled": True,
    }
    row = plain | {"pool": "default", "next": None}
    union = row | {"triggers": [{"cron": "0 9 * * *"}, {"every_s": 60}, {"at": ["2026-01-01T00:00:00Z"] * 3}]}
    text = schedule_text.schedules([union, row | {"at": ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]}])
    assert "0 9 * * *, or every 60s, or at 2026-01-01T00:00:00Z and 2 more" in text
    assert "at 2026-01-01T00:00:00Z and 1 more" in text
    assert (
        schedule_text.preview(
            {
                "creates": [],
                "changes": ["a/b"],
                "differences": {"a/b": ["overlap", "jitter"]},
                "unchanged": [],
                "pools": [],
            }
        )
        == "would change a/b: overlap, jitter"
    )
    assert schedule_text.backfill({"creates": [], "left": []}) == "nothing is planned in that time"
