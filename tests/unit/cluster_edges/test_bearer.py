"""Credentials: what is one, what is none, and that neither is ever shown."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.bearer import Bearers, Principal, load_token
from cluster.outcome import Unfit

ANN = Principal("ann", "operator")
BOB = Principal("bob", "worker", pools=frozenset({"default"}))
ANN_TOKEN = b"ann-0123456789abcdef"
BOB_TOKEN = b"bob-0123456789abcdef"
BEARERS = Bearers([(ANN, ANN_TOKEN), (BOB, BOB_TOKEN)])


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
def test_each_token_names_its_own_principal(scheme: bytes) -> None:
    assert BEARERS.judge([scheme + b" " + ANN_TOKEN]) is ANN
    assert BEARERS.judge([scheme + b" " + BOB_TOKEN]) is BOB


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [ANN_TOKEN],
        [b"Basic " + ANN_TOKEN],
        [b"Bearer " + ANN_TOKEN[:-1]],
        [b"Bearer " + ANN_TOKEN + b"x"],
        [b"Bearer " + ANN_TOKEN.upper()],
        [b"Bearer " + ANN_TOKEN + b", Bearer " + ANN_TOKEN],
        [b"Bearer " + ANN_TOKEN, b"Bearer " + ANN_TOKEN],
        [b"Bearer " + ANN_TOKEN, b""],
        [b"Bearer \xe9" + ANN_TOKEN],
        [b"Bearer\t" + ANN_TOKEN],
        [b"Bearer \x00" + ANN_TOKEN],
    ],
)
def test_anything_else_is_nobody(headers: list[bytes]) -> None:
    assert BEARERS.judge(headers) is None


@given(st.lists(st.binary(max_size=64), max_size=3))
def test_any_bytes_are_judged_without_a_fault(headers: list[bytes]) -> None:
    assert BEARERS.judge(headers) is None


def test_a_listener_without_credentials_lets_nobody_in() -> None:
    assert Bearers([]).judge([b"Bearer "]) is None


def test_two_equal_tokens_are_refused_by_the_principals_names() -> None:
    with pytest.raises(Unfit, match=r"'ann' and 'bob' hold the same token") as refusal:
        Bearers([(ANN, ANN_TOKEN), (BOB, ANN_TOKEN)])
    assert ANN_TOKEN.decode() not in str(refusal.value)


@pytest.mark.parametrize(
    "token", [b"", b"short", b"a token with spaces", b"nul-\x00-0123456789abcd", "é".encode() * 16, b"x" * 4097]
)
def test_what_is_no_token_is_refused_without_showing_it(token: bytes) -> None:
    with pytest.raises(Unfit, match="'ann'") as refusal:
        Bearers([(ANN, token)])
    assert not token or repr(token)[2:-1] not in str(refusal.value)


def test_no_repr_shows_a_token() -> None:
    assert b"0123456789abcdef" not in repr((BEARERS, vars(BEARERS))).encode()


def _file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_file_holds_the_token_and_perhaps_a_newline(tmp_path: Path, end: bytes) -> None:
    assert load_token(_file(tmp_path, ANN_TOKEN + end)) == ANN_TOKEN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(Unfit, match=rf"token is open to other users \(mode {mode:04o}\); run: chmod 600"):
        load_token(_file(tmp_path, ANN_TOKEN, mode))


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", ANN_TOKEN + b"\n\n", b"x" * 5000])
def test_a_file_without_a_usable_token_is_refused_by_name_only(tmp_path: Path, content: bytes) -> None:
    path = _file(tmp_path, content)
    with pytest.raises(Unfit, match=str(path)) as refusal:
        load_token(path)
    assert ANN_TOKEN.decode() not in str(refusal.value)


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(Unfit, match=r"nowhere cannot be read \(No such file or directory\)"):
        load_token(tmp_path / "nowhere")


def test_a_named_pipe_holds_up_nobody(tmp_path: Path) -> None:
    path = tmp_path / "token"
    os.mkfifo(path, 0o600)
    with pytest.raises(Unfit, match="is empty"):
        load_token(path)
