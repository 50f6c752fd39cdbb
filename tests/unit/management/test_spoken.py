from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.problem import Problem
from runner.management.console_words import WORDS, help_lines
from runner.management.spoken import MAX_PLAIN_BYTES, MAX_TEXT, as_said, understood

STATEMENT = {"attester": "Rita", "statement": "host is off", "evidence": "ticket 7"}


def values(text: str) -> dict[str, Any]:
    return dict(understood(text.encode()).values)


def refused(raw: bytes) -> str:
    with pytest.raises(Problem) as caught:
        understood(raw)
    assert (caught.value.status, caught.value.certainty) == (400, "not_done")
    assert caught.value.detail.isprintable()
    return caught.value.detail


def test_plain_words_have_a_shells_quotes() -> None:
    said = values(
        """attest r1 2 --attester 'Rita R.' --statement="host is off" --evidence ticket\\ 7 --row-revision 12"""
    )
    assert said == {
        "run": "r1",
        "attempt": 2,
        "attester": "Rita R.",
        "statement": "host is off",
        "evidence": "ticket 7",
        "row_revision": 12,
    }


def test_both_forms_say_the_same() -> None:
    body = {"command": "attest", "run": "r1", "attempt": 2, **STATEMENT, "key": None}
    as_json = understood(msgspec.json.encode(body))
    plain = understood(b"attest r1 2 --attester Rita --statement 'host is off' --evidence 'ticket 7'")
    assert as_json.word is plain.word
    assert as_json.values == plain.values
    assert (as_json.is_json, plain.is_json) == (True, False)


def test_what_is_yes_or_no_is_said_without_a_value_in_plain_words() -> None:
    plain = understood(b"backfill demo/tick --from 2026-01-01T00:00:00Z --dry-run --to=2026-01-02T00:00:00Z")
    body = {"command": "backfill", "schedule": "demo/tick", "dry_run": True}
    assert plain.values == understood(msgspec.json.encode(body | _SPAN)).values
    assert values("enable demo/tick --catch-up") == {"schedule": "demo/tick", "catch_up": True}
    assert values("next demo/tick --n 3 --explain") == {"schedule": "demo/tick", "n": 3, "explain": True}
    assert values("clock accept") == {"action": "accept"}
    assert "takes no value" in refused(b"enable demo/tick --catch-up=no")
    assert "one word too many" in refused(b"enable demo/tick --catch-up no")
    for wrong in ("yes", 1, []):
        assert "neither true nor false" in refused(msgspec.json.encode(body | _SPAN | {"dry_run": wrong}))


_SPAN = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("line", "word"), [("list", "runs"), ("?", "help"), ('{"command": "list"}', "runs"), ("\tstatus ", "status")]
)
def test_other_names_of_words(line: str, word: str) -> None:
    assert understood(line.encode()).word.name == word


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"stauts", "no command 'stauts'"),
        (b"cancel", "needs run"),
        (b"cancel r1 r2", "'r2' is one word too many"),
        (b"cancel --run r1", "takes no '--run'"),
        (b"cancel r1 --force yes", "takes no '--force'"),
        (b"cancel r1 --key", "--key has no value"),
        (b"cancel r1 --key --credential x", "--key has no value"),
        (b"cancel r1 --key a --key b", "key is said twice"),
        (b"status --key 1", "takes no '--key'"),
        (b"show 'r1", "quote is not closed"),
        (b"show r1\\", "quote is not closed"),
        (b"show \xff", "not UTF-8"),
        (b"show r\x001", "control characters"),
        ("show \u202er1".encode(), "cannot be seen"),
        (b"attest r1 one", "say a number"),
        (b"attest r1 " + b"1" * 40, "say a number"),
        ("attest r1 \u0662".encode(), "say a number"),
        (b"show " + b"r" * MAX_PLAIN_BYTES, "say it as JSON"),
        (b'"" x', "no command ''"),
        (b"apply --schedules x", "takes no '--schedules' in plain words"),
        (b"{", "not one JSON object"),
        (b'{"command": "status"} {"command": "status"}', "not one JSON object"),
        (b'{"command": ' + b"[" * 5000 + b"}", "not one JSON object"),
        (b"{}", 'no member "command"'),
        (b'{"command": 1}', 'no member "command"'),
        (b'{"command": "cancel"}', "needs run"),
        (b'{"command": "cancel", "run": 1}', "run is not one line"),
        (b'{"command": "cancel", "run": "a\\nb"}', "run is not one line"),
        (b'{"command": "cancel", "run": "' + b"r" * (MAX_TEXT + 1) + b'"}', "run is not one line"),
        (b'{"command": "cancel", "run": "r1", "force": true}', "takes no 'force'"),
        (b'{"command": "attest", "run": "r1", "attempt": true}', "attempt is no number"),
        (b'{"command": "attest", "run": "r1", "attempt": 1e30}', "attempt is no number"),
        (b'{"command": "attest", "run": "r1", "attempt": -1}', "attempt is no number"),
        (b'{"command": "apply", "schedules": {}}', "schedules is no list"),
        (b'{"command": "status", "credential": "x\\u0000"}', "credential is not one line"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(line: bytes, why: str) -> None:
    assert why in refused(line)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=80).map(str.encode),
        st.lists(st.sampled_from([*WORDS, "--key", "r1", "1", "'", '"', "\\", "--", "=", "--limit=3"])).map(
            lambda words: " ".join(words).encode()
        ),
        st.dictionaries(
            st.sampled_from(["command", "run", "attempt", "key", "limit", "schedules", "x"]),
            st.one_of(st.sampled_from([*WORDS]), st.none(), st.integers(), st.lists(st.text(max_size=3)), st.floats()),
        ).map(msgspec.json.encode),
    )
)
def test_whatever_a_line_holds_it_is_understood_or_refused_in_printable_words(raw: bytes) -> None:
    try:
        spoken = understood(raw)
    except Problem as problem:
        assert problem.certainty == "not_done"  # noqa: PT017 - what is not raised is checked below
        return
    assert set(spoken.word.needs) | set(spoken.word.needs_named) <= spoken.values.keys()


@pytest.mark.parametrize(
    "line",
    [
        "attest r1 2 --attester 'Rita R.' --statement 'it''s off' --evidence=--",
        "trigger demo/tick --credential 'a b'",
        "enable demo/tick --catch-up",
        '{"command": "enable", "schedule": "demo/tick", "catch_up": false}',
        '{"command": "cancel", "run": "r1", "credential": "x"}',
    ],
)
def test_what_is_given_back_to_be_repeated_is_the_same_command_with_its_key(line: str) -> None:
    spoken = understood(line.encode())
    said = as_said(spoken, {"key": "k1"})
    again = understood(said.encode() if isinstance(said, str) else msgspec.json.encode(said))
    assert again.word is spoken.word
    assert again.values == {**spoken.values, "key": "k1"}
    assert again.is_json == spoken.is_json


def test_help_tells_of_every_word() -> None:
    lines = help_lines()
    assert [line.split(":")[0].split()[0] for line in lines] == list(WORDS)
    assert (
        "attest RUN N --attester NAME --statement TEXT --evidence TEXT "
        "[--row-revision R] [--credential FILE] [--key K]" in "\n".join(lines)
    )
