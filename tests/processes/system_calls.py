"""The order of system calls of one voter, read from a trace by strace, and what must hold in it.

Positions are lines of the trace. A call that strace shows in two halves begins and ends at different lines.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cluster.frames import Append, Frame, Malformed, Matched, RequestVote, Vote, decode_frame

TRACED = "fdatasync,fsync,pwrite64,sendto,sendmsg,recvfrom,recvmsg"
STRACE = ["strace", "-f", "-ttt", "-yy", "-xx", "-s", "1048576", "-e", f"trace={TRACED}"]
WAL = "raft.db-wal"
SYNCS = ("fdatasync", "fsync")
TELLING_BYTES = 20  # a command as long as this is found in the pages of a WAL

_LINE = re.compile(r"^(\d+)\s+[\d.]+ (.*)$")
_RESUMED = re.compile(r"^<\.\.\. \w+ resumed>(.*)$")
_CALL = re.compile(r"^(\w+)\(\d+<(TCP:\[[^\]]*\]|[^>]*)>(.*)\)\s+= (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_UNFINISHED = " <unfinished ...>"


@dataclass(frozen=True, slots=True)
class Call:
    """One system call on a file or a connection."""

    began: int
    ended: int
    name: str
    what: str
    content: bytes
    result: int


@dataclass(frozen=True, slots=True)
class Told:
    """A frame of Raft that left (`out`) or came in; `position` = its first byte left, or its last one came."""

    position: int
    out: bool
    frame: Frame


@dataclass(slots=True)
class Findings:
    """What was found out of order, and how often there was anything to find."""

    problems: list[str] = field(default_factory=list)
    looked_at: Counter[str] = field(default_factory=Counter)


def read_calls(lines: Iterable[str]) -> list[Call]:
    """Return the calls in the order of their ends; what strace says of signals and threads is skipped."""
    begun: dict[str, tuple[int, str]] = {}
    calls: list[Call] = []
    for position, line in enumerate(lines, start=1):
        if (shown := _LINE.match(line)) is None:
            continue
        thread, text = shown.groups()
        began = position
        if text.endswith(_UNFINISHED):
            begun[thread] = position, text.removesuffix(_UNFINISHED)
            continue
        if (rest := _RESUMED.match(text)) is not None and thread in begun:
            began, first = begun.pop(thread)
            text = first + rest[1]
        if (call := _CALL.match(text)) is not None:
            name, what, words, result = call.groups()
            content = b"".join(_bytes_of(each) for each in _TEXT.findall(words))
            calls.append(Call(began, position, name, _path_of(what), content, int(result)))
    return calls


def _bytes_of(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _path_of(shown: str) -> str:
    return _bytes_of(shown).decode() if shown.startswith("\\x") else shown


class Disk:
    """Which bytes of the log were on disk when."""

    def __init__(self, calls: list[Call]) -> None:
        wal = [call for call in calls if call.what.endswith(WAL) and call.result >= 0]
        self._writes = [call for call in wal if call.name == "pwrite64"]
        self._syncs = [call for call in wal if call.name in SYNCS]

    def covers(self, after: int, before: int, needle: bytes = b"") -> bool:
        """Whether something (with these bytes in it) was written to the WAL after a position and synced before another."""
        first = next(
            (w.ended for w in self._writes if w.began > after and w.ended < before and needle in w.content), None
        )
        return first is not None and any(first < sync.began and sync.ended < before for sync in self._syncs)


class Stream:
    """One direction of one connection: WebSocket messages in what is sent over it."""

    def __init__(self) -> None:
        self._left = b""
        self._began = 0

    def take(self, call: Call) -> Iterator[tuple[int, bytes]]:
        """Yield the messages that end in a call, each with where its first byte was; noise is skipped, call by call."""
        content = call.content[: call.result]
        if content.startswith((b"GET ", b"HTTP/1.1 101")):
            _, _, content = content.partition(b"\r\n\r\n")
        if not self._left:
            self._began = call.began
        self._left += content
        while (cut := _message(self._left)) is not None:
            size, message = cut
            if size == 0:
                self._left = b""
                return
            yield self._began, message
            self._left, self._began = self._left[size:], call.began


def _message(stream: bytes) -> tuple[int, bytes] | None:
    """Return size and content of the first WebSocket frame, None if it is not all there, size 0 if it is none."""
    if len(stream) < 2:
        return None
    if stream[0] & 0x70 or stream[0] & 0x0F not in {0, 1, 2, 8, 9, 10}:
        return 0, b""
    length, place = stream[1] & 0x7F, 2
    for marker, form in ((126, ">H"), (127, ">Q")):
        if length == marker:
            if len(stream) < place + struct.calcsize(form):
                return None
            (length,) = struct.unpack_from(form, stream, place)
            place += struct.calcsize(form)
            break
    mask = b""
    if stream[1] & 0x80:
        mask, place = stream[place : place + 4], place + 4
    if len(stream) < place + length:
        return None
    content = stream[place : place + length]
    if mask:
        content = bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))
    return place + length, content


def frames_of(calls: list[Call]) -> list[Told]:
    """Return every frame of Raft in the trace, in the order in which their last bytes went."""
    streams: dict[tuple[str, bool], Stream] = {}
    told = []
    for call in calls:
        if not call.what.startswith("TCP:") or call.result <= 0:
            continue
        out = call.name.startswith("send")
        for began, message in streams.setdefault((call.what, out), Stream()).take(call):
            try:
                frame = decode_frame(message)
            except Malformed:
                continue  # a hello, a ping, or no Raft link at all
            told.append(Told(began if out else call.ended, out, frame))
    return told


def judge(calls: list[Call], management_port: int) -> Findings:
    """Hold the calls of one voter against the order of durability."""
    disk, told, found = Disk(calls), frames_of(calls), Findings()
    _judge_following(disk, told, found)
    _judge_terms(disk, told, found)
    _judge_leading(disk, told, found)
    _judge_answers(disk, calls, told, management_port, found)
    return found


def _note(found: Findings, what: str, holds: object, problem: str) -> None:
    found.looked_at[what] += 1
    if not holds:
        found.problems.append(f"{what}: {problem}")


def _judge_following(disk: Disk, told: list[Told], found: Findings) -> None:
    """Between a batch that came in and its acknowledgement its entries are written and synced."""
    heard: dict[tuple[int, int], tuple[int, bytes]] = {}
    acknowledged: set[tuple[int, int]] = set()
    for each in told:
        message = each.frame.message
        if isinstance(message, Append) and not each.out:
            for index, (term, command) in enumerate(message.entries, start=message.prev_index + 1):
                heard.setdefault((index, term), (each.position, command))
        elif isinstance(message, Matched) and each.out:
            for key, (came, command) in heard.items():
                if key[0] <= message.index and key not in acknowledged:
                    acknowledged.add(key)
                    needle = command if TELLING_BYTES <= len(command) < 1000 else b""
                    synced = disk.covers(came, each.position, needle)
                    _note(
                        found, "acknowledgement", synced, f"of {key[0]} at line {each.position}, heard at line {came}"
                    )


def _judge_terms(disk: Disk, told: list[Told], found: Findings) -> None:
    """A term is synced before it is spoken in, and a vote between its request and its answer."""
    asked: dict[int, int] = {}
    last: Told | None = None
    for each in told:
        term, message = each.frame.term, each.frame.message
        if isinstance(message, RequestVote) and not each.out:
            asked.setdefault(term, each.position)
        if not each.out or term == 0:  # a goodbye claims no term
            continue
        if last is not None and term > last.frame.term:
            synced = disk.covers(last.position, each.position)
            _note(found, "term", synced, f"{term} at line {each.position}, still {last.frame.term} at {last.position}")
        if isinstance(message, Vote):
            synced = disk.covers(asked.get(term, each.position), each.position)
            _note(found, "vote", synced, f"in term {term} at line {each.position}, asked at line {asked.get(term)}")
        if last is None or term >= last.frame.term:
            last = each


def _judge_leading(disk: Disk, told: list[Told], found: Findings) -> None:
    """A leader says that an entry of its term is committed only after its own sync of it."""
    sent: dict[int, bytes] = {}
    for each in told:
        message = each.frame.message
        if not isinstance(message, Append) or not each.out:
            continue
        for index in [index for index in sent if index <= message.commit_index]:
            synced = disk.covers(0, each.position, sent.pop(index))
            _note(found, "commit", synced, f"of {index} at line {each.position}, which this leader has not synced")
        for index, (term, command) in enumerate(message.entries, start=message.prev_index + 1):
            if term == each.frame.term and TELLING_BYTES <= len(command) < 1000:
                sent[index] = command


def _judge_answers(disk: Disk, calls: list[Call], told: list[Told], port: int, found: Findings) -> None:
    """A caller's change is answered after the own sync and after a follower's acknowledgement."""
    asked: dict[str, int] = {}
    for call in calls:
        if f":{port}->" not in call.what:
            continue
        if call.name.startswith("recv") and call.content.startswith(b"POST /v1/"):
            asked[call.what] = call.ended
        elif call.name.startswith("send") and call.content.startswith(b"HTTP/1.1 200") and call.what in asked:
            came = asked.pop(call.what)
            _note(found, "answer", disk.covers(came, call.began), f"at line {call.began}, asked at line {came}")
            backed = any(
                isinstance(each.frame.message, Matched) and not each.out and came < each.position < call.began
                for each in told
            )
            _note(found, "answer backed", backed, f"at line {call.began}: nobody has acknowledged it")
