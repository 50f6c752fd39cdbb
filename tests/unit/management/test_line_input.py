from hypothesis import given
from hypothesis import strategies as st

from runner.management.line_input import MAX_LINE_BYTES, Line, LineSplitter, Trouble

BYTES = st.lists(st.sampled_from([b"a", b"status", b"\n", b"\r", b"\0", b"\xff", b"{", b"  ", b"xxxxxxxxxxxx"])).map(
    b"".join
)


def parted(chunks: list[bytes], most: int) -> list[Line]:
    splitter = LineSplitter(most)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    half = splitter.end()
    return lines if half is None else [*lines, half]


@given(BYTES, st.lists(st.integers(min_value=1, max_value=20)), st.integers(min_value=1, max_value=30))
def test_any_bytes_in_any_chunks_are_the_same_lines(whole: bytes, cuts: list[int], most: int) -> None:
    chunks, rest = [], whole
    for size in cuts:
        chunks.append(rest[:size])
        rest = rest[size:]
    *ended, half = whole.split(b"\n")
    expected = [(raw, len(raw) > most) for raw in ended]

    lines = parted([*chunks, rest], most)
    complete = lines[: len(ended)]
    assert [(line.number, line.trouble is Trouble.TOO_LONG) for line in complete] == [
        (number, too_long) for number, (_, too_long) in enumerate(expected, 1)
    ]
    for line, (raw, too_long) in zip(complete, expected, strict=True):
        assert line.raw == (raw[:most] if too_long else raw.removesuffix(b"\r"))
    assert [line.trouble for line in lines[len(ended) :]] == ([Trouble.CUT_OFF] if half else [])


def test_a_line_of_ten_mebibytes_is_one_line_and_its_end_is_where_the_next_begins() -> None:
    splitter = LineSplitter()
    lines = []
    for _ in range(160):
        lines += splitter.feed(b"x" * (64 << 10))
        assert len(splitter._kept) <= MAX_LINE_BYTES, "memory grows with the line"
    lines += splitter.feed(b"\nstatus\n")
    assert [(line.number, line.trouble) for line in lines] == [(1, Trouble.TOO_LONG), (2, None)]
    assert lines[1].raw == b"status"


def test_a_line_of_exactly_the_most_is_whole() -> None:
    assert [line.trouble for line in parted([b"123456789\n1234567890\n"], 9)] == [None, Trouble.TOO_LONG]


def test_blank_lines_count_and_ask_nothing() -> None:
    lines = parted([b"\n \t\r\nstatus\n"], 100)
    assert [(line.number, line.is_blank) for line in lines] == [(1, True), (2, True), (3, False)]
