"""The worker's side of a keeper: the process beside a command that tells when nothing of its tree is left."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from worker.engine import host
from worker.engine.base import Refused, SubmissionUnknown
from worker.engine.output import Pipe
from worker.ports import Clock
from worker.protocol import CommandTarget

_SCRIPT: Final = Path(__file__).with_name("keeper.py")
_CHUNK: Final = 4096
_LOADED_WITH: Final = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
"""What this Python may need to start at all; no command gets it."""


class Keeper:
    """One keeper process, from its start to its end, listened to (and reaped) however long it lives.

    Attributes:
        process: the keeper, as /proc names it; its descendants are the attempt's tree, exactly.
        command: pid and start time of the command, once `started` has returned.
        exit_code: how the command ended, None before; -N for signal N.
        ended_ms: the wall clock when that was heard.
        empty: the keeper said that no process of the tree is left; it is believed, since it asked the kernel.
        over: set when the keeper has ended, whether or not it could say so.
    """

    def __init__(self, started: "subprocess.Popen[bytes]", heard: int, clock: Clock) -> None:
        """Listen to a keeper that was just started."""
        found = host.process(started.pid)
        assert found is not None, "a child that was not waited for is in /proc"
        self.process = found
        self.command = (0, 0)
        self.exit_code: int | None = None
        self.ended_ms = 0
        self.empty = False
        self.over = asyncio.Event()
        self._popen = started
        self._heard = heard
        self._clock = clock
        self._text = b""
        self._first: list[object] | None = None
        self._answered = asyncio.Event()
        self._changed: Callable[[], None] = lambda: None
        asyncio.get_running_loop().add_reader(heard, self._readable)

    @classmethod
    def start(
        cls, target: CommandTarget, env: Mapping[str, str], pipes: tuple[Pipe, Pipe], name: str, clock: Clock
    ) -> "Keeper":
        """Start a keeper that starts the command of a target.

        Raises:
            Refused: nothing was started.
        """
        heard, said = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            job = _job(target, env)
            try:
                started = subprocess.Popen(  # noqa: S603 - this very Python, and a script of ours
                    [sys.executable, "-I", "-S", str(_SCRIPT), str(job), str(said)],
                    env={**_LOADED_WITH, host.KEEPER_VARIABLE: name},
                    stdin=subprocess.DEVNULL,
                    stdout=pipes[0].theirs,
                    stderr=pipes[1].theirs,
                    pass_fds=(job, said),
                    start_new_session=True,
                )
            finally:
                os.close(job)
        except OSError as fault:
            os.close(heard)
            raise Refused(f"the process that keeps its tree together cannot be started: {fault.strerror}") from fault
        finally:
            os.close(said)
        return cls(started, heard, clock)

    async def started(self) -> None:
        """Wait until the command is started, for certain.

        Raises:
            Refused: it was not, for certain.
            SubmissionUnknown: the keeper ended without a word.
        """
        await self._answered.wait()
        match self._first:
            case ["started", int(pid), int(ticks)]:
                self.command = (pid, ticks)
            case ["refused", str(what), str(why)]:
                await self.over.wait()
                raise Refused(f"{_text(what)}: {why}")
            case _:
                raise SubmissionUnknown("the process that was to start it ended without a word: it may have run")

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this when the command or the keeper has ended, at once if that has come to pass."""
        self._changed = changed
        if self.exit_code is not None or self.over.is_set():
            changed()

    def _readable(self) -> None:
        chunk = os.read(self._heard, _CHUNK)
        *lines, self._text = (self._text + chunk).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._heard)
            os.close(self._heard)
            self._popen.wait()  # its end of the pipe closes as it exits, so this does not wait
            self._answered.set()
            self.over.set()
            self._changed()

    def _hear(self, words: list[object]) -> None:
        match words:
            case ["ended", int(code)]:
                self.exit_code = code
                self.ended_ms = self._clock.wall_ms()
                self._changed()
            case ["empty"]:
                self.empty = True
            case _:
                self._first = words
                self._answered.set()


def _job(target: CommandTarget, env: Mapping[str, str]) -> int:
    """Write what to start to memory that a child can read, and return the handle. Text goes as bytes in latin-1."""
    job = {
        "argv": [_bytes(word) for word in target.argv],
        "names": [_bytes(name) for name in env],
        "values": [_bytes(value) for value in env.values()],
        "cwd": [_bytes(target.cwd)] if target.cwd is not None else [],
    }
    handle = os.memfd_create("fencepost-job")
    with os.fdopen(os.dup(handle), "wb") as sink:
        sink.write(json.dumps(job).encode())
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _bytes(text: str) -> str:
    return os.fsencode(text).decode("latin-1")


def _text(text: str) -> str:
    return os.fsdecode(text.encode("latin-1", errors="replace"))
