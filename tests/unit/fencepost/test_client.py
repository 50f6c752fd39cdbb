import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from fencepost.client import Client, Patience
from fencepost.config import ClientConfig
from fencepost.faults import Failure, Uncertain
from tests.unit.fencepost.scripted_voter import (
    Act,
    ScriptedVoter,
    answers,
    closed_url,
    hangs_up,
    problem,
    raw,
    resets,
    sends,
)

KEY = "01890a5d-ac96-774b-bcce-b302099a8057"
TOKEN = b"a-token-that-must-stay-unseen"
BODY = b'{"run_id":"r1"}'

HALF_AN_ANSWER = sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
NOT_HTTP = sends(b"SSH-2.0-nobody\r\n")


class Time:
    """A clock that only moves when somebody pauses."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def mono_s(self) -> float:
        return self.now_s

    def pause(self, length_s: float) -> None:
        self.pauses.append(length_s)
        self.now_s += length_s


def client(*urls: str, time: Time | None = None) -> Client:
    time = time or Time()
    return Client(ClientConfig(management_urls=urls, token=TOKEN), Patience(mono_s=time.mono_s, pause=time.pause))


def test_a_change_carries_key_bearer_and_body_as_they_are() -> None:
    with ScriptedVoter(answers(200, {"run_id": "r1"})) as voter:
        answer = client(voter.url).change("/v1/cancel", BODY, KEY)
    assert answer.content == {"run_id": "r1"}
    (heard,) = voter.heard
    assert heard.line == "POST /v1/cancel HTTP/1.1"
    assert heard.headers["idempotency-key"] == KEY
    assert heard.headers["authorization"] == "Bearer a-token-that-must-stay-unseen"
    assert heard.body == BODY


def test_a_refused_connection_leads_to_the_next_address() -> None:
    with ScriptedVoter(answers(200, {}), answers(200, [])) as voter:
        both = client(closed_url(), voter.url)
        both.change("/v1/cancel", BODY, KEY)
        both.read("/v1/runs")
    assert [heard.line for heard in voter.heard] == ["POST /v1/cancel HTTP/1.1", "GET /v1/runs HTTP/1.1"]


def test_where_no_address_can_be_connected_to_a_change_was_certainly_not_done() -> None:
    with pytest.raises(Failure, match="no voter can be connected to"):
        client(closed_url(), closed_url()).change("/v1/cancel", BODY, KEY)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(hangs_up, id="hangs up"),
        pytest.param(resets, id="resets"),
        pytest.param(HALF_AN_ANSWER, id="half an answer"),
        pytest.param(NOT_HTTP, id="not http"),
        pytest.param(raw(200, b"<html>"), id="no json"),
        pytest.param(raw(302, b"", Location="http://example.invalid/"), id="elsewhere"),
        pytest.param(problem(503, "unknown"), id="says unknown"),
        pytest.param(problem(500, "unknown"), id="broke down"),
        pytest.param(raw(502, b"<html>bad gateway</html>"), id="a proxy's word"),
        pytest.param(problem(503, None), id="not now, without certainty"),
    ],
)
def test_a_change_that_was_sent_and_not_answered_is_uncertain_and_goes_nowhere_else(act: Act) -> None:
    with ScriptedVoter(act) as first, ScriptedVoter(answers(200, {})) as second, pytest.raises(Uncertain) as caught:
        client(first.url, second.url).change("/v1/cancel", BODY, KEY)
    assert caught.value.key == KEY
    assert len(first.heard) == 1
    assert second.heard == []


@pytest.mark.parametrize(
    "act",
    [
        hangs_up,
        resets,
        HALF_AN_ANSWER,
        NOT_HTTP,
        problem(503, "unknown"),
        problem(500, "unknown"),
        problem(503, "not_done"),
    ],
)
def test_a_read_that_got_no_answer_is_asked_of_the_next_address(act: Act) -> None:
    with ScriptedVoter(act) as first, ScriptedVoter(answers(200, ["row"])) as second:
        answer = client(first.url, second.url).read("/v1/runs", {"schedule": "demo/close", "limit": "5"})
    assert answer.content == ["row"]
    assert second.heard[0].line == "GET /v1/runs?schedule=demo%2Fclose&limit=5 HTTP/1.1"


def test_a_read_that_nobody_answers_fails_with_the_last_trouble() -> None:
    with ScriptedVoter(hangs_up) as voter, pytest.raises(Failure, match="no whole answer"):
        client(voter.url, closed_url()).read("/v1/runs")


def test_while_no_owner_serves_a_change_is_repeated_with_the_same_key_and_body() -> None:
    time = Time()
    script = [problem(503, "not_done"), problem(429, "not_done"), answers(200, {"state": "Cancelling"})]
    with ScriptedVoter(*script) as voter:
        answer = client(voter.url, time=time).change("/v1/cancel", BODY, KEY)
    assert answer.content == {"state": "Cancelling"}
    assert {(heard.headers["idempotency-key"], heard.body) for heard in voter.heard} == {(KEY, BODY)}
    assert time.pauses == [0.3, 0.3]


def test_a_voter_without_an_owner_leads_to_the_next_one_at_once() -> None:
    time = Time()
    with ScriptedVoter(problem(503, "not_done")) as first, ScriptedVoter(answers(200, {})) as second:
        client(first.url, second.url, time=time).change("/v1/cancel", BODY, KEY)
    assert len(second.heard) == 1
    assert time.pauses == []


def test_patience_ends_and_the_voter_says_how_long_to_wait() -> None:
    time = Time()
    script = [problem(503, "not_done", Retry_After="4")] * 9
    with ScriptedVoter(*script) as voter, pytest.raises(Failure, match=r"not done: as scripted \(HTTP 503"):
        client(voter.url, time=time).change("/v1/cancel", BODY, KEY)
    assert time.pauses == [4.0, 4.0]


def test_a_change_that_became_uncertain_on_a_repeat_is_uncertain() -> None:
    with ScriptedVoter(problem(503, "not_done"), hangs_up) as voter, pytest.raises(Uncertain):
        client(voter.url).change("/v1/cancel", BODY, KEY)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_a_refusal_is_final_and_says_why(status: int) -> None:
    act = problem(status, "not_done", "run r1 is Succeeded\n\x1b[2J")
    with ScriptedVoter(act, act) as first, ScriptedVoter() as second:
        for ask in (lambda c: c.change("/v1/cancel", BODY, KEY), lambda c: c.read("/v1/runs")):
            with pytest.raises(Failure) as caught:
                ask(client(first.url, second.url))
            assert str(caught.value) == f"run r1 is Succeeded  [2J (HTTP {status} from {first.url})"


def test_a_rehearsal_changes_nothing_and_so_is_asked_again() -> None:
    with ScriptedVoter(hangs_up) as first, ScriptedVoter(answers(200, {"creates": []})) as second:
        assert client(first.url, second.url).rehearse("/v1/apply", BODY, KEY).content == {"creates": []}
    assert second.heard[0].line == "POST /v1/apply?dry_run=true HTTP/1.1"


def test_a_stale_answer_says_so() -> None:
    with ScriptedVoter(answers(200, [], Fencepost_Stale="41")) as voter:
        assert client(voter.url).read("/v1/runs").stale_index == "41"


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.client.MAX_ANSWER_BYTES", 10)
    with ScriptedVoter(answers(200, ["x" * 20])) as voter, pytest.raises(Failure, match="longer than 10 bytes"):
        client(voter.url).read("/v1/runs")


def test_an_answer_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.client.ANSWER_S", 0.05)
    given_up = threading.Event()
    with ScriptedVoter(lambda _: _until(given_up)) as voter:
        with pytest.raises(Uncertain, match="TimeoutError"):
            client(voter.url).change("/v1/cancel", BODY, KEY)
        given_up.set()


@pytest.fixture
def ctrl_c_heard() -> Iterator[None]:
    """Hear SIGINT even where the suite itself was started in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_heard")
def test_ctrl_c_after_a_change_was_sent_leaves_it_uncertain() -> None:
    gone = threading.Event()

    def interrupts(_: object) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        _until(gone)

    with ScriptedVoter(interrupts) as voter:
        with pytest.raises(Uncertain, match="interrupted"):
            client(voter.url).change("/v1/cancel", BODY, KEY)
        gone.set()


def test_the_token_is_in_no_error_and_no_repr() -> None:
    seen: list[str] = [repr(client(closed_url()))]
    calls: list[Callable[[Client], object]] = [
        lambda c: c.change("/v1/cancel", BODY, KEY),
        lambda c: c.read("/v1/runs"),
    ]
    for act in (hangs_up, problem(401, "not_done"), NOT_HTTP):
        for call in calls:
            with ScriptedVoter(act) as voter, pytest.raises((Failure, Uncertain)) as caught:
                call(client(voter.url))
            seen.append(repr(caught.value) + str(caught.value) + repr(caught.value.__cause__))
    assert not [text for text in seen if TOKEN.decode() in text]


def _until(event: threading.Event) -> None:
    assert event.wait(30)
