import pytest

from fencepost.address import Address, BadAddress, calling, is_loopback, listening


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("127.0.0.1:7101", Address("127.0.0.1", 7101)),
        ("[::1]:0", Address("::1", 0)),
        ("db-1.example.org:65535", Address("db-1.example.org", 65_535)),
    ],
)
def test_an_address_to_listen_on_and_back(text: str, right: Address) -> None:
    assert listening(text) == right
    assert str(right) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7101",
        "127.0.0.1",
        "127.0.0.1:",
        ":7101",
        "::1:7101",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "a b:1",
        "[127.0.0.1]:1",
        "h:٣",
    ],
)
def test_no_address_to_listen_on(text: str) -> None:
    with pytest.raises(BadAddress, match="host and a port"):
        listening(text)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("http://127.0.0.1:7101", "http://127.0.0.1:7101"),
        ("https://voter.example.org/", "https://voter.example.org"),
        ("http://[::1]:7101", "http://[::1]:7101"),
    ],
)
def test_an_address_to_call(text: str, right: str) -> None:
    assert calling(text) == right


@pytest.mark.parametrize(
    "text",
    [
        "", "127.0.0.1:7101", "ftp://h:1", "file:///etc/passwd", "http://", "http://h:99999", "http://h:0", "http://h/path",
        "http://h:1?q=1", "http://h:1#f", "http://user:marker@h:1", "http://[::1:7101", "http://h h:1", " http://h:1", "http://h\r\nX:1",
    ],
)  # fmt: skip
def test_no_address_to_call_and_no_word_of_it_is_repeated(text: str) -> None:
    with pytest.raises(BadAddress) as caught:
        calling(text)
    assert "marker" not in str(caught.value)


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example.org")] == [False] * 4
