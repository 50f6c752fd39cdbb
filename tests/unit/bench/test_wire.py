import pytest

from bench.wire import answer

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"


@pytest.mark.parametrize(("raw", "status"), [(PLAIN, 200), (CHUNKED, 503)])
def test_an_answer_is_found_once_it_is_whole_and_what_follows_is_kept(raw: bytes, status: int) -> None:
    assert all(answer(raw[:length]) is None for length in range(len(raw)))
    assert answer(raw + b"HTTP/1.1 2") == (status, b"hello", b"HTTP/1.1 2")
