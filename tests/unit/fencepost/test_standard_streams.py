"""The console's ends on real descriptors: pipes, files and terminals, also those that take nothing or go away."""

import asyncio
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fencepost import standard_streams
from fencepost.own_thread import OwnThread
from fencepost.standard_streams import StandardStreams

READING, WRITING = OwnThread("test-in"), OwnThread("test-out")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for each in ends:
        try:
            os.close(each)
        except OSError:
            continue  # the test has closed it


def streams(source: int, sink: int) -> StandardStreams:
    return StandardStreams(source, sink, is_terminal=False, reading=READING, writing=WRITING)


async def test_a_pipe_is_read_as_it_is_written_and_to_its_end(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    ends = streams(source, sink)
    await ends.write(b"status\n")
    assert await ends.read() == b"status\n"
    os.close(sink)
    assert await ends.read() == b""


async def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * (standard_streams.CHUNK_BYTES + 1))
    with path.open("rb") as file:
        ends = streams(file.fileno(), -1)
        assert [len(await ends.read()) for _ in range(3)] == [standard_streams.CHUNK_BYTES, 1, 0]


async def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        await streams(folder, -1).read()
    os.close(folder)


async def test_a_full_pipe_holds_up_nobody_else_and_takes_all_once_it_is_read(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    os.set_blocking(sink, False)  # as another process that shares it may do
    text = os.urandom(300_000)
    read = b""
    async with asyncio.TaskGroup() as group:
        group.create_task(streams(-1, sink).write(text))
        while len(read) < len(text):
            read += await READING.call(partial(os.read, source, 65536))
    assert read == text


async def test_a_pipe_without_a_reader_says_so(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    os.close(source)
    with pytest.raises(BrokenPipeError):
        await streams(-1, sink).write(b"x")


async def test_input_that_nobody_writes_can_be_left_alone(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    thread = OwnThread("test-waits")
    waiting = StandardStreams(source, -1, is_terminal=False, reading=thread, writing=WRITING)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waiting.read()
    daemons = [each for each in threading.enumerate() if each.name == "test-waits"]
    assert [each.daemon for each in daemons] == [True], "the process would wait for it at its end"
    os.write(sink, b"x")


PROGRAM = """
import asyncio, sys
from fencepost.standard_streams import standard_streams
async def main():
    ends = standard_streams()
    print("none" if ends is None else ends.is_terminal, file=sys.stderr, flush=True)
    if ends is not None:
        await ends.write(await ends.read())
asyncio.run(main())
"""


TELLS_WHEN_IT_WAITS = """
import sys, time
def pause(seconds, sleep=time.sleep):
    print("it", "waits", file=sys.stderr, flush=True)
    sleep(seconds)
time.sleep = pause
"""


def program(stdin: int, stdout: int, **more: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, **more)


@pytest.mark.processes
def test_the_null_device_and_closed_ends_are_no_console() -> None:
    null = program(subprocess.DEVNULL, subprocess.DEVNULL)
    shut = subprocess.Popen(
        ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, PROGRAM], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    mute = subprocess.Popen(
        ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, PROGRAM], stderr=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert [each.communicate()[1] for each in (null, shut, mute)] == [b"none\n"] * 3


@pytest.mark.processes
def test_a_job_in_the_background_of_its_terminal_waits_for_its_turn_and_is_not_stopped(tmp_path: Path) -> None:
    """The shell leads a session of its own, takes the terminal as the first that it opens, and has a job of ours."""
    # What it says is told apart from the terminal's echo, whatever else is said in between.
    answers = PROGRAM.replace("ends.write(await", "ends.write(b'it read ' + await")
    (tmp_path / "program.py").write_text(TELLS_WHEN_IT_WAITS + answers)
    terminal, other = pty.openpty()
    opened = f'exec bash --norc --noediting -im <"{os.ttyname(other)}" >"{os.ttyname(other)}" 2>&1'
    shell = subprocess.Popen(["sh", "-c", opened], start_new_session=True)
    try:
        _type(terminal, f"PYTHONPATH=. {sys.executable} {tmp_path}/program.py & sleep 0\n")
        _until(terminal, b"it waits")
        _type(terminal, "jobs -l\n")
        assert b"Stopped" not in _until(terminal, b"Running")
        _type(terminal, "fg\n")
        _until(terminal, b"program.py\r\n")
        _type(terminal, "hello\n")
        _until(terminal, b"it read hello")
    finally:
        os.close(other)
        os.close(terminal)  # hangs up: the shell and its job end
        shell.wait()


def _type(terminal: int, text: str) -> None:
    os.write(terminal, text.encode())


def _until(terminal: int, words: bytes) -> bytes:
    """Return what the terminal shows up to some words; the test's own limit of time ends a wait in vain."""
    shown = b""
    while words not in shown:
        shown += os.read(terminal, 4096)
    return shown
