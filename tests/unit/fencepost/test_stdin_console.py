"""The console's shell: whatever comes in and whatever becomes of the output, a line has one answer or is not acted on."""

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cluster.outcome import FailStop
from fencepost import stdin_console
from fencepost.stdin_console import StdinConsole
from runner.checkpoint.results import OpResult
from runner.management.console import Console
from runner.management.line_input import MAX_LINE_BYTES
from tests.unit.management.fakes import BEARERS, TOKENS, FakeOwner, Voter, cluster


class FakeEnds:
    """Gives its chunks and then the end; keeps what it is given, as long as it takes any."""

    def __init__(self, *chunks: bytes, is_terminal: bool = False) -> None:
        self.chunks = list(chunks)
        self.is_terminal = is_terminal
        self.written: list[bytes] = []
        self.takes: Callable[[], Awaitable[None]] | None = None

    async def read(self) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    async def write(self, text: bytes) -> None:
        if self.takes is not None:
            await self.takes()
        self.written.append(text)


class StuckOwner(FakeOwner):
    """A loop that keeps its caller waiting."""

    def __init__(self) -> None:
        super().__init__("node1", "node1")
        self.asked = asyncio.Event()

    async def submit(self, op: Any) -> OpResult:
        self.ops.append(op)
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def shell(ends: FakeEnds, voter: Voter | None = None) -> StdinConsole:
    voter = voter or cluster()[0]
    return StdinConsole(
        Console(management=voter.management, bearers=BEARERS, read_credential=lambda _: next(iter(TOKENS.values()))),
        ends,
    )


def answers(ends: FakeEnds) -> list[dict[str, Any]]:
    """Return what was written; each is one JSON object on a line of its own."""
    assert all(each.endswith(b"\n") and each.count(b"\n") == 1 for each in ends.written)
    return [json.loads(each) for each in ends.written]


LINES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from([b"status", b"cancel r1", b'{"command": "cancel", "run": "r1"}', b"trigger a/b", b"{", b" \r"]),
        st.sampled_from([b"\n", b"\n", b"\r\n"]),
    )
).map(b"".join)


@settings(max_examples=40, deadline=None)
@given(LINES, st.lists(st.integers(min_value=1, max_value=40)))
def test_whatever_comes_in_every_line_has_its_one_answer_in_order(whole: bytes, cuts: list[int]) -> None:
    chunks, rest = [], whole
    for size in cuts:
        if rest[:size]:
            chunks.append(rest[:size])
        rest = rest[size:]
    ends = FakeEnds(*chunks, *([rest] if rest else []))
    asyncio.run(shell(ends).run())
    *ended, half = whole.split(b"\n")
    expected = [number for number, raw in enumerate(ended, 1) if raw.strip(b" \t\r")]
    said = answers(ends)
    assert [each["line"] for each in said] == expected + ([len(ended) + 1] if half else [])
    assert all(each["certainty"] in {"done", "not_done"} for each in said)
    if half:
        assert said[-1]["certainty"] == "not_done"


async def test_c86_garbage_a_huge_line_and_an_end_in_mid_line_do_nothing_and_the_next_line_is_as_good_as_ever() -> None:
    voter, _ = cluster()
    ends = FakeEnds(
        b'{"command": "cancel", \n"run": "r1"}\n',  # one object on two lines
        b"cancel r1 " + b"x" * (MAX_LINE_BYTES),
        *[b"x" * MAX_LINE_BYTES] * 9,
        b" cancel r1\ncancel\0r1\n\xff\xfe\n",
        b'{"command": "trigger", "schedule": "demo/tick"}\n',
        b"cancel r1",
    )
    with capture_logs() as logs:
        await shell(ends, voter).run()
    said = answers(ends)
    assert [each["certainty"] for each in said] == ["not_done"] * 5 + ["done", "not_done"]
    assert [type(op).__name__ for op in voter.owner.ops] == ["Trigger"]
    assert logs[-1]["event"] == "the console's input ended; this runner goes on"


async def test_a_terminal_gets_text_for_plain_words_and_json_for_json() -> None:
    ends = FakeEnds(b'cancel r1\nnonsense \x1b[31m\n{"command": "help"}\n', is_terminal=True)
    await shell(ends).run()
    done, refused, as_json = ends.written
    assert done == b"done\n"
    assert refused.startswith(b"not done: ")
    assert b"\x1b" not in refused
    assert json.loads(as_json)["command"] == "help"


async def test_what_goes_elsewhere_is_one_json_object_a_line_with_the_text_in_it_for_plain_words() -> None:
    ends = FakeEnds(b'status\n{"command": "status"}\n')
    await shell(ends).run()
    plain, as_json = answers(ends)
    assert "owner" in plain["text"]
    assert plain["answer"]["node"] == as_json["answer"]["node"] == "node1"
    assert "text" not in as_json


async def test_once_held_it_begins_no_further_line() -> None:
    voter, _ = cluster()
    ends = FakeEnds(b"cancel r1\ncancel r2\n")
    console = shell(ends, voter)

    async def hold() -> None:
        console.hold()

    ends.takes = hold
    await console.run()
    assert [each["line"] for each in answers(ends)] == [1]
    assert len(voter.owner.ops) == 1


async def test_a_command_that_is_broken_off_is_answered_as_unknown_with_its_key() -> None:
    owner = StuckOwner()
    voter, _ = cluster(first=owner)
    ends = FakeEnds(b"cancel r1\nstatus\n")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(shell(ends, voter).run())
        await owner.asked.wait()
        running.cancel()
    (said,) = answers(ends)
    assert said["certainty"] == "unknown"
    assert said["key"] == owner.ops[0].operation.key
    assert said["repeat"] == f"cancel r1 --key={said['key']}"


async def test_output_that_takes_nothing_holds_up_the_console_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin_console, "SLOW_S", 0.0)
    voter, _ = cluster()
    ends = FakeEnds(b"cancel r1\ncancel r2\n")
    begun, room = asyncio.Event(), asyncio.Event()

    async def full() -> None:
        begun.set()
        await room.wait()

    ends.takes = full
    with capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            group.create_task(shell(ends, voter).run())
            await begun.wait()
            for _ in range(3):
                await asyncio.sleep(0)
            assert len(voter.owner.ops) == 1, "a line was read before the answer to the one before it was taken"
            room.set()
    assert "nobody reads the console's answers; it waits" in [each["event"] for each in logs]
    assert [each["line"] for each in answers(ends)] == [1, 2]


async def test_output_that_is_gone_ends_the_console_and_what_was_done_is_in_the_log_with_its_key() -> None:
    voter, _ = cluster()
    ends = FakeEnds(b"cancel r1\ncancel r2\n")

    async def gone() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    ends.takes = gone
    with capture_logs() as logs:
        await shell(ends, voter).run()
    (op,) = voter.owner.ops
    assert (logs[-2]["certainty"], logs[-2]["key"]) == ("done", op.operation.key)
    assert (logs[-1]["event"], logs[-1]["why"]) == ("the console ended; this runner goes on", "Broken pipe")


async def test_input_that_fails_ends_the_console_alone() -> None:
    ends = FakeEnds()

    async def broken() -> bytes:
        raise IsADirectoryError(errno.EISDIR, "Is a directory")

    ends.read = broken
    with capture_logs() as logs:
        await shell(ends).run()
    assert logs[-1]["why"] == "Is a directory"


async def test_a_fault_in_one_command_is_its_own_answer_and_the_next_line_goes_on() -> None:
    voter, _ = cluster()
    voter.owner.answer = RuntimeError("s3cret")
    ends = FakeEnds(b"cancel r1\nstatus\n")
    with capture_logs() as logs:
        await shell(ends, voter).run()
    failed, fine = answers(ends)
    assert (failed["certainty"], fine["certainty"]) == ("unknown", "done")
    assert "s3cret" not in str(logs) + str(failed)


async def test_a_fail_stop_is_answered_by_nobody() -> None:
    voter, _ = cluster()
    voter.owner.answer = FailStop("the disk is gone")
    ends = FakeEnds(b"cancel r1\n")
    with pytest.raises(FailStop):
        await shell(ends, voter).run()
    assert ends.written == []


async def test_an_owner_of_another_version_is_shown_as_it_answers() -> None:
    voter, _ = cluster()
    voter.node.read = _other_form
    ends = FakeEnds(b"runs\n", is_terminal=True)
    await shell(ends, voter).run()
    assert b"other" in ends.written[0]


async def _other_form(_: object) -> object:
    return [{"other": "form"}]
