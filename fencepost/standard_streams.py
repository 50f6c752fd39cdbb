"""This process's standard input and output as a console's two ends: pipes, files and terminals alike.

Both are read and written by threads. Their descriptors stay as they came: they are shared with whoever started this
process, so that to make them non-blocking would change them for a shell, or for our own log.
"""

import errno
import os
import select
import signal
import stat
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from fencepost.own_thread import OwnThread

CHUNK_BYTES: Final = 64 << 10
BACKGROUND_LOOK_S: Final = 0.5


class Ends(Protocol):
    """What a console reads and writes.

    Attributes:
        is_terminal: whether a person reads the answers.
    """

    @property
    def is_terminal(self) -> bool:
        """Tell whether answers go to a terminal."""
        ...

    async def read(self) -> bytes:
        """Return some bytes, as soon as there are any; empty at the end of the input. Raises OSError."""
        ...

    async def write(self, text: bytes) -> None:
        """Return once all bytes were taken. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class StandardStreams:
    """Descriptors of our own for both, whatever becomes of 0 and 1."""

    source: int
    sink: int
    is_terminal: bool
    reading: OwnThread
    writing: OwnThread

    async def read(self) -> bytes:
        """Return some bytes; implements `Ends`."""
        return await self.reading.call(lambda: _read(self.source))

    async def write(self, text: bytes) -> None:
        """Return once all bytes were taken; implements `Ends`."""
        await self.writing.call(lambda: _write_all(self.sink, text))


def standard_streams() -> StandardStreams | None:
    """Return both ends, or None where nobody can be there: input from the null device, or either of them closed.

    Call it before anything is opened: a closed descriptor's number is given to the next file.
    From here on a process in the background of its terminal waits for its turn to read instead of being stopped.
    """
    if sys.stdin is None or sys.stdout is None or _is_null(0):
        return None
    if os.isatty(0):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    return StandardStreams(os.dup(0), os.dup(1), os.isatty(1), OwnThread("stdin"), OwnThread("stdout"))


def _is_null(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, CHUNK_BYTES)
        except BlockingIOError:
            _wait(source, select.POLLIN)
        except OSError as fault:
            if fault.errno != errno.EIO or not _is_in_background(source):
                raise
            time.sleep(BACKGROUND_LOOK_S)


def _write_all(sink: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        try:
            rest = rest[os.write(sink, rest) :]
        except BlockingIOError:
            _wait(sink, select.POLLOUT)


def _wait(descriptor: int, what: int) -> None:
    """Block until a descriptor is ready that whoever shares it has made non-blocking."""
    poll = select.poll()
    poll.register(descriptor, what)
    poll.poll()


def _is_in_background(source: int) -> bool:
    """Tell whether this is our terminal and another job has it now: then a read fails, as SIGTTIN is ignored."""
    with suppress(OSError):
        return os.tcgetpgrp(source) != os.getpgrp()
    return False
