import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.frames import (
    HELLO_MAX_BYTES,
    MAX_COMMAND_BYTES,
    MAX_FRAME_BYTES,
    NO_OP,
    PROTOCOL_VERSION,
    Alive,
    Append,
    Conflict,
    Digests,
    Frame,
    Full,
    Goodbye,
    Hello,
    Malformed,
    Matched,
    Message,
    PreVote,
    RequestVote,
    Standing,
    TimeoutNow,
    Vote,
    WouldVote,
    check_hello,
    decode_frame,
    decode_hello,
    encode_frame,
    encode_hello,
    goodbye,
    raise_to,
    session_of,
)
from tests.unit.cluster.fakes import CLUSTER, identity

HELLO = Hello(PROTOCOL_VERSION, CLUSTER, 1, "node2", f"{2:032x}", 4, 7, bytes(16))
MESSAGES: list[Message] = [
    Standing(3),
    Standing(3, version=2),
    Append(2, 5, 3, ((3, raise_to(7)),)),
    Append(2, 5, 3, ((3, b"\x00work"), (4, NO_OP))),
    Append(2, 5, 3, ()),
    Matched(9),
    Conflict(4),
    Alive(),
    RequestVote(8, 3),
    RequestVote(8, 3, bidden=True),
    Vote(),
    PreVote(8, 3),
    WouldVote(5),
    TimeoutNow(),
    Goodbye("moving on"),
    Digests(((256, bytes(32)), (300, b"d" * 32))),
    Full(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_frame_survives_its_journey(message: Message) -> None:
    frame = Frame("s1", 4, 1_700_000_000_000, 12, message)
    assert decode_frame(encode_frame(frame)) == frame


@pytest.mark.parametrize(
    "message",
    [
        Append(2, 5, 3, ((3, b"\x00a"), (2, b"\x00b"))),
        Append(2, 5, 3, ((9, b"\x00a"),)),
        Append(2, 5, 9, ()),
        Append(2, 5, 3, ((2, b"\x00a"),)),
        Digests(((256, bytes(31)),)),
        Standing(3, version=0),
        Append(2, 5, 3, ((3, raise_to(7) + b"more"),)),
        Digests(((0, bytes(32)),)),
        Digests(tuple((index, bytes(32)) for index in range(1, 130))),
        Append(2, 1, 1, ()),
        Append(2, 5, 3, ((3, b""),)),
        Append(2, 5, 3, ((3, b"\x02membership"),)),
        Append(2, 5, 3, ((3, b"\x03version"),)),
        Append(2, 5, 3, ((3, NO_OP + b"tail"),)),
        Append(2, 5, 3, ((3, bytes(MAX_COMMAND_BYTES + 2)),)),
        Append(0, 5, 3, ()),
        Append(1 << 63, 5, 3, ()),
        Matched(0),
        Standing(-1),
        PreVote(0, 3),
        WouldVote(-1),
    ],
)
def test_entries_that_no_leader_writes_are_malformed(message: Message) -> None:
    with pytest.raises(Malformed):
        decode_frame(encode_frame(Frame("s1", 4, 0, 1, message)))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        msgspec.msgpack.encode(["s1", 4, 0, 1, [99, 1]]),
        msgspec.msgpack.encode(["s1", 4, 0, 1, [1]]),
        msgspec.msgpack.encode(["s1", 4, 0, 1, [1, 2, 3, 4]]),
        msgspec.msgpack.encode(["s1", 4, 0, 1, [1, 2], "more"]),
        msgspec.msgpack.encode(["s1", "4", 0, 1, [1, 2]]),
        msgspec.msgpack.encode(["s1", -4, 0, 1, [1, 2]]),
        encode_frame(Frame("s1", 4, 0, 1, Vote())) + b"\x00",
        bytes(MAX_FRAME_BYTES + 1),
        b"\x95\xa1\xff\x03\x01\x01\x92\x01\x01",
    ],
)
def test_noise_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        decode_frame(raw)


@given(st.binary(max_size=200), st.sampled_from(MESSAGES), st.integers(0, 60))
def test_no_bytes_do_anything_but_decode_or_be_malformed(noise: bytes, message: Message, position: int) -> None:
    whole = encode_frame(Frame("s1", 4, 0, 12, message))
    for raw in (noise, whole[:position], whole[:position] + noise + whole[position:]):
        for decode in (decode_frame, decode_hello):
            try:
                decode(raw)
            except Malformed:
                continue


def test_a_hello_survives_its_journey_and_is_bounded() -> None:
    assert decode_hello(encode_hello(HELLO)) == HELLO
    for raw in (b"\xc0", bytes(HELLO_MAX_BYTES + 1), encode_hello(msgspec.structs.replace(HELLO, nonce=b"short"))):
        with pytest.raises(Malformed):
            decode_hello(raw)


def test_a_later_version_is_refused_for_its_version_though_it_says_more() -> None:
    later = msgspec.to_builtins(HELLO, builtin_types=(bytes,)) | {"version": PROTOCOL_VERSION + 1, "colour": "blue"}
    reason = check_hello(identity(), decode_hello(msgspec.msgpack.encode(later)))
    assert reason == f"it speaks protocol version {PROTOCOL_VERSION + 1}, this voter speaks {PROTOCOL_VERSION}"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, None),
        ({"version": PROTOCOL_VERSION + 1}, f"version {PROTOCOL_VERSION + 1}"),
        ({"cluster_id": "other"}, "cluster other"),
        ({"generation": 2}, "generation 2"),
        ({"name": "node1", "disk_id": f"{1:032x}"}, "own name"),
        ({"name": "node9"}, "stranger"),
        ({"disk_id": f"{9:032x}"}, None),
    ],
)
def test_who_may_speak(change: dict[str, object], word: str | None) -> None:
    reason = check_hello(identity(), msgspec.structs.replace(HELLO, **change))
    assert reason is None if word is None else word in str(reason)


def test_both_ends_of_a_link_name_it_alike_and_never_again() -> None:
    assert session_of(bytes(16), bytes(range(16))) == session_of(bytes(16), bytes(range(16)))
    assert session_of(bytes(16), bytes(range(16))) != session_of(bytes(range(16)), bytes(16))
    assert len(session_of(bytes(16), bytes(16))) == 32


def test_a_goodbye_is_cut_to_what_its_reader_accepts() -> None:
    frame = decode_frame(goodbye("s1", "x" * 1000))
    assert isinstance(frame.message, Goodbye)
    assert frame.message.why == "x" * 200
