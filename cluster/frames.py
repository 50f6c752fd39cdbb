"""Every frame that crosses a Raft link: strict msgpack, enumerated kinds, bounded numbers (DESIGN 3.1, Transport).

The first frame each way is a `Hello`; every later one is a `Frame`: a message together with the session it
belongs to, the term it was written in, and the sender's wall clock and applied index.
"""

import hashlib
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from cluster.configuration import is_change
from cluster.numbers import LARGEST, Count, Digest, Index, Version, Word
from cluster.pieces import SnapshotWord
from cluster.ports import Identity

PROTOCOL_VERSION: Final = 3
HELLO_MAX_BYTES: Final = 4096
MAX_COMMAND_BYTES: Final = 4 << 20
MAX_BATCH_BYTES: Final = 1 << 20  # of entries in one Append; one command may exceed it and then travels alone
MAX_WINDOW_BYTES: Final = 4 << 20  # of entries on their way to one peer, not acknowledged yet
MAX_FRAME_BYTES: Final = 8 << 20
LINK_QUEUE_BYTES: Final = 2 * MAX_FRAME_BYTES  # what a link must be able to queue before it counts as overflowing
NONCE_BYTES: Final = 16

REGULAR: Final = b"\x00"  # first byte of a command of the state machine
NO_OP: Final = b"\x01"  # the whole command of a no-op
RAISE: Final = b"\x02"  # first byte of a command that raises the cluster version, four more bytes
RAISE_BYTES: Final = 5
CONFIGURE: Final = b"\x03"  # first byte of a command that names another disk for a voter, a `Change` after it


class Malformed(Exception):
    """A frame that no voter of this version writes; it is dropped or refused and changes nothing."""


class Hello(Struct, frozen=True):
    """Who dials or answers, and where it stands. Everything in it is durable at the sender.

    Fields of a later version are skipped, so that its sender is refused for its version and not as noise.

    Attributes:
        version: protocol version of every frame that follows.
        cluster_id: lower-case UUID of the cluster.
        generation: restore generation.
        name: the sender's name.
        disk_id: identity of the sender's disk.
        term: Raft term.
        last_index: index of the last log entry.
        nonce: 16 random bytes, fresh for this connection.
    """

    version: Count
    cluster_id: Word
    generation: Count
    name: Word
    disk_id: Word
    term: Count
    last_index: Index
    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class Standing(Struct, frozen=True, array_like=True, tag=1, forbid_unknown_fields=True):
    """First message of a link, then one a second: where the sender's log ends. Genesis and status live on it.

    Attributes:
        last_index: index of the sender's last entry.
        version: the highest cluster version that the sender's program can apply.
    """

    last_index: Index
    version: Version = 1


class Append(Struct, frozen=True, array_like=True, tag=2, forbid_unknown_fields=True):
    """A leader's entries after `prev_index`, each (term, command); no entries = a heartbeat."""

    commit_index: Index
    prev_index: Index
    prev_term: Count
    entries: tuple[tuple[Count, bytes], ...]


class Matched(Struct, frozen=True, array_like=True, tag=3, forbid_unknown_fields=True):
    """The sender's synced log equals the leader's of this term up to `index`, and it may hold more."""

    index: Index


class Conflict(Struct, frozen=True, array_like=True, tag=4, forbid_unknown_fields=True):
    """The sender's log does not hold the entry before the batch; `next_index` is where to try next."""

    next_index: Index


class Alive(Struct, frozen=True, array_like=True, tag=5, forbid_unknown_fields=True):
    """No claim but the term of its frame: the answer to a message of an older term."""


class RequestVote(Struct, frozen=True, array_like=True, tag=6, forbid_unknown_fields=True):
    """A candidate asks for a vote in the term of its frame; the rest says how far its log goes.

    `bidden` = the leader itself asked for this election, so nobody needs to stick to it.
    """

    last_index: Index
    last_term: Count
    bidden: bool = False


class Vote(Struct, frozen=True, array_like=True, tag=7, forbid_unknown_fields=True):
    """The sender's one vote of the term of its frame."""


class Goodbye(Struct, frozen=True, array_like=True, tag=8, forbid_unknown_fields=True):
    """Last frame of a link: why its sender ends it."""

    why: Word


class PreVote(Struct, frozen=True, array_like=True, tag=9, forbid_unknown_fields=True):
    """Would the receiver vote for the sender in the term after its frame's? It changes nothing at the receiver."""

    last_index: Index
    last_term: Count


class WouldVote(Struct, frozen=True, array_like=True, tag=10, forbid_unknown_fields=True):
    """The sender would vote for the receiver in `term`, as things stand; it promises nothing."""

    term: Count


class TimeoutNow(Struct, frozen=True, array_like=True, tag=11, forbid_unknown_fields=True):
    """The leader of the frame's term bids the receiver stand at once: leadership is being handed over."""


class Digests(Struct, frozen=True, array_like=True, tag=30, forbid_unknown_fields=True):
    """What the sender's state was at some indices, its newest included: (applied index, running digest)."""

    claims: Annotated[tuple[tuple[Index, Digest], ...], Meta(max_length=128)]


class Full(Struct, frozen=True, array_like=True, tag=31, forbid_unknown_fields=True):
    """The answer to a batch of a voter whose disk is full: it took nothing, and does not count as heard."""


ElectionWord = PreVote | WouldVote | TimeoutNow
Consensus = Append | Matched | Conflict | Alive | RequestVote | Vote | ElectionWord  # what a voter decides about
Message = Consensus | Standing | Goodbye | SnapshotWord | Digests | Full


class Frame(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One message and what travels beside it.

    Attributes:
        session: the link it belongs to; a frame of any other session is dropped.
        term: the sender's term when it wrote the message.
        wall_ms: the sender's wall clock when the frame left, milliseconds since the epoch, UTC.
        applied_index: what the sender's state machine had applied when the frame left.
        message: one of the enumerated kinds.
    """

    session: Word
    term: Count
    wall_ms: Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
    applied_index: Index
    message: Message


_packed: Final = msgspec.msgpack.Encoder()
_hello_of: Final = msgspec.msgpack.Decoder(Hello)
_frame_of: Final = msgspec.msgpack.Decoder(Frame)


def encode_hello(hello: Hello) -> bytes:
    """Return the frame of a hello."""
    return _packed.encode(hello)


def decode_hello(frame: bytes) -> Hello:
    """Return the hello in a link's first frame.

    Raises:
        Malformed: it is too large or not a hello; its text never repeats bytes of the frame.
    """
    if len(frame) > HELLO_MAX_BYTES:
        raise Malformed(f"a hello of {len(frame)} bytes; at most {HELLO_MAX_BYTES} are read")
    try:
        return _hello_of.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("not a hello of this protocol") from error


def check_hello(identity: Identity, hello: Hello) -> str | None:
    """Return None when the two may speak, else why not, in words for both logs; whose disk it is, is asked elsewhere."""
    faults = (
        (
            hello.version != PROTOCOL_VERSION,
            f"it speaks protocol version {hello.version}, this voter speaks {PROTOCOL_VERSION}",
        ),
        (
            hello.cluster_id != identity.cluster_id,
            f"it belongs to cluster {hello.cluster_id}, this voter to {identity.cluster_id}",
        ),
        (
            hello.generation != identity.generation,
            f"it is of restore generation {hello.generation}, this voter of {identity.generation}",
        ),
        (hello.name == identity.name, f"it calls itself {hello.name}, which is this voter's own name"),
        (hello.name not in identity.members, f"{hello.name} is a stranger: no member of this cluster has that name"),
    )
    return next((reason for wrong, reason in faults if wrong), None)


def session_of(dialer_nonce: bytes, listener_nonce: bytes) -> str:
    """Return the identity of a link from both nonces: 32 hex digits, the same at both ends, never used again."""
    return hashlib.sha256(dialer_nonce + listener_nonce).hexdigest()[:32]


def goodbye(session: str, why: str) -> bytes:
    """Return the last frame of a link; claims no term. Before a session exists, `session` is empty."""
    return encode_frame(Frame(session=session, term=0, wall_ms=0, applied_index=1, message=Goodbye(why[:200])))


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    return _packed.encode(frame)


def decode_frame(frame: bytes) -> Frame:
    """Return the frame in these bytes.

    Raises:
        Malformed: too large, of an unknown kind, or no leader of this version would have written its entries.
    """
    if len(frame) > MAX_FRAME_BYTES:
        raise Malformed(f"a frame of {len(frame)} bytes; at most {MAX_FRAME_BYTES} are read")
    try:
        decoded = _frame_of.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("not a frame of this protocol") from error
    if isinstance(decoded.message, Append):
        _check_entries(decoded.term, decoded.message)
    return decoded


def decode_frame_of(session: str, frame: bytes) -> Frame:
    """Return the frame in bytes that came over a link of a session.

    Raises:
        Malformed: as `decode_frame`, or it was written for another session.
    """
    decoded = decode_frame(frame)
    if decoded.session != session:
        raise Malformed("a frame of another session")
    return decoded


def is_command(entry: bytes) -> bool:
    """Return whether an entry is of one of the kinds that exist."""
    kind = entry[:1]
    raises = kind == RAISE and len(entry) == RAISE_BYTES
    return kind == REGULAR or entry == NO_OP or raises or (kind == CONFIGURE and is_change(entry[len(CONFIGURE) :]))


def raise_to(version: int) -> bytes:
    """Return the entry that raises the cluster version."""
    return RAISE + version.to_bytes(RAISE_BYTES - len(RAISE), "big")


def raised_to(entry: bytes) -> int:
    """Return the version that such an entry raises the cluster to."""
    return int.from_bytes(entry[len(RAISE) :], "big")


def _check_entries(term: int, append: Append) -> None:
    """Terms never fall along a log nor exceed the leader's, and only four kinds of command exist."""
    if append.prev_index == 1 and append.prev_term != 0:
        raise Malformed("the initial entry has term 0")
    previous = append.prev_term
    for entry_term, command in append.entries:
        if not previous <= entry_term <= term:
            raise Malformed("terms of entries fall, or exceed the leader's")
        if not is_command(command):
            raise Malformed("an entry of an unknown kind of command")
        if len(command) > MAX_COMMAND_BYTES + len(REGULAR):
            raise Malformed("an entry larger than any command may be")
        previous = entry_term
    if previous > term:
        raise Malformed("the entry before the batch is of a later term than its leader's")
