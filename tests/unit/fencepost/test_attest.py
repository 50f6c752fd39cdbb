"""`fencepost attest` of all that a lost incarnation left, and `fencepost unknown`."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.main import main
from tests.unit.fencepost.scripted_voter import ScriptedVoter, answers, hangs_up
from tests.unit.fencepost.test_main import operator

WORDS = ["--attester", "Ada", "--statement", "the host burnt", "--evidence", "ticket 7"]
WHOLE = ["attest", "--worker", "w1", "--incarnation", "a4", *WORDS]


def row(run_id: str, revision: int, **changes: Any) -> dict[str, Any]:
    values = {
        "namespace": "demo",
        "schedule": "close",
        "run_id": run_id,
        "attempt": 1,
        "state": "Unknown",
        "superseded": False,
        "worker": "w1",
        "incarnation": "a4",
        "since": "2026-01-01T00:00:00Z",
        "why": "its worker has been out of contact",
        "row_revision": revision,
    }
    return values | changes


LISTED = [row("r1", 12), row("r2", 13, state="Cancelling")]
DONE = {
    "worker": "w1",
    "incarnation": "a4",
    "attested": [{"run_id": "r1", "attempt": 1, "state": "Quiesced", "run_state": "Quiesced"}],
    "attesting_does_not": ["cancel a permit"],
}


def test_what_is_read_is_said_and_exactly_that_is_attested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, LISTED), answers(200, DONE)) as voter:
        assert main([*WHOLE, "--config", operator(tmp_path, voter.url)]) == 0
    assert voter.heard[0].line == "GET /v1/unknown?worker=w1&incarnation=a4&limit=1000 HTTP/1.1"
    assert voter.heard[1].line == "POST /v1/attest/incarnation HTTP/1.1"
    assert json.loads(voter.heard[1].body) == {
        "worker": "w1",
        "incarnation": "a4",
        "attester": "Ada",
        "statement": "the host burnt",
        "evidence": "ticket 7",
        "attempts": [
            {"run_id": "r1", "attempt": 1, "row_revision": 12},
            {"run_id": "r2", "attempt": 1, "row_revision": 13},
        ],
    }
    assert capsys.readouterr().out.splitlines() == [
        "attesting attempt 1 of run r1 (demo/close), Unknown since 2026-01-01T00:00:00Z",
        "attesting attempt 1 of run r2 (demo/close), Cancelling since 2026-01-01T00:00:00Z",
        "done",
        "worker: w1",
        "incarnation: a4",
        "attested: attempt 1 of run r1 is Quiesced, the run Quiesced",
        "attesting_does_not: cancel a permit",
    ]


def test_a_lost_reply_is_repeated_as_the_same_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, LISTED), hangs_up, answers(200, DONE)) as voter:
        config = operator(tmp_path, voter.url)
        assert main([*WHOLE, "--config", config]) == 3
        options = capsys.readouterr().err.strip().rpartition("repeat with ")[2].split()
        assert options[2:] == ["--row", "r1:1:12", "--row", "r2:1:13"]
        assert main([*WHOLE, "--config", config, *options]) == 0
    _, first, second = voter.heard
    assert (first.body, first.headers["idempotency-key"]) == (second.body, second.headers["idempotency-key"])


def test_where_nothing_can_be_attested_nothing_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, []), answers(200, [{"x": 1}])) as voter:
        assert main([*WHOLE, "--config", operator(tmp_path, voter.url)]) == 1
        assert 'nothing of incarnation "a4" of worker "w1" can be attested' in capsys.readouterr().err
        assert main([*WHOLE, "--config", operator(tmp_path, voter.url)]) == 1
        assert "not in the form" in capsys.readouterr().err
    assert len(voter.heard) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["attest", *WORDS],
        ["attest", "r1", *WORDS],
        ["attest", "--worker", "w1", *WORDS],
        ["attest", "--incarnation", "a4", *WORDS],
        ["attest", "r1", "1", "--worker", "w1", "--incarnation", "a4", *WORDS],
        ["attest", "r1", "1", "--row", "r1:1:2", *WORDS],
        [*WHOLE, "--row-revision", "7"],
        [*WHOLE, "--row", "r1:1"],
        [*WHOLE, "--row", ":1:1"],
        [*WHOLE, "--row", "r1:0:1"],
        [*WHOLE, "--row", "r1:1:1:1"],
        [*WHOLE, "--worker", "\udcff"],
    ],
)
def test_one_attempt_or_one_incarnation_is_named_and_not_both(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--config", operator(tmp_path, "http://127.0.0.1:9")]) == 2
    err = capsys.readouterr().err
    assert "--help` shows what is right" in err
    assert err.count("\n") == 1


def test_unknown_lists_whose_since_when_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedVoter(answers(200, LISTED), answers(200, []), answers(200, LISTED)) as voter:
        config = operator(tmp_path, voter.url)
        assert main(["unknown", "--worker", "w1", "--config", config]) == 0
        out = capsys.readouterr().out
        assert "w1      a4           r1   1  demo/close  Unknown     2026-01-01T00:00:00Z  12" in out
        assert "its worker has been out of contact" in out
        assert main(["unknown", "--config", config]) == 0
        assert "Nothing is uncertain." in capsys.readouterr().out
        assert main(["unknown", "--json", "--config", config]) == 0
        assert json.loads(capsys.readouterr().out) == LISTED
    assert voter.heard[0].line == "GET /v1/unknown?limit=1000&worker=w1 HTTP/1.1"
