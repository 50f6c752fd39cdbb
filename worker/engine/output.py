"""Output of a command in bounded memory and bounded files: head and tail are kept, the cut between them is marked."""

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

MAX_FILE_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = MAX_FILE_BYTES // 2
_MARK_BYTES: Final = 80
_RING_BYTES: Final = MAX_FILE_BYTES - _HEAD_BYTES - _MARK_BYTES
_CHUNK_BYTES: Final = 1 << 16
_LAST_BYTES: Final = 1024


class BoundedFile:
    """A file that takes any number of bytes and keeps the first and the last of them.

    Behind the head, the file is written as a ring; `close` puts it in order. A write that fails (disk full) ends the
    keeping, never the work: what was kept so far stays.
    """

    def __init__(self, path: Path, *, head: int = _HEAD_BYTES, ring: int = _RING_BYTES) -> None:
        """Make the file.

        Raises:
            OSError: it cannot be made.
        """
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._head = head
        self._ring = ring
        self._taken = 0
        self._failed = False
        self._last = b""

    @property
    def last(self) -> bytes:
        """The last bytes taken, at most 1 KiB."""
        return self._last

    def take(self, chunk: bytes) -> None:
        """Keep what belongs to head or tail."""
        self._last = (self._last + chunk[-_LAST_BYTES:])[-_LAST_BYTES:]
        start = 0
        while start < len(chunk) and not self._failed:
            start += self._put(chunk[start:])

    def close(self) -> None:
        """Put head, mark and tail in order, and close. Idempotent."""
        if self._handle < 0:
            return
        try:
            if self._taken > self._head + self._ring and not self._failed:
                self._unroll()
        except OSError:
            self._failed = True
        os.close(self._handle)
        self._handle = -1

    def _put(self, rest: bytes) -> int:
        """Write as much as fits before the next edge; return how much that was."""
        behind = self._taken - self._head
        place = self._taken if behind < 0 else self._head + behind % self._ring
        room = (self._head if behind < 0 else self._head + self._ring) - place
        try:
            written = os.pwrite(self._handle, rest[:room], place)
        except OSError:
            self._failed = True
            return 0
        self._taken += written
        return written

    def _unroll(self) -> None:
        turn = (self._taken - self._head) % self._ring
        ring = os.pread(self._handle, self._ring, self._head)
        cut = self._taken - self._head - self._ring
        mark = f"\n[fencepost: {cut} bytes cut here]\n".encode()
        tail = mark + ring[turn:] + ring[:turn]
        os.pwrite(self._handle, tail, self._head)
        os.ftruncate(self._handle, self._head + len(tail))


class Pipe:
    """One output stream of a command, from its pipe into a bounded file, read by the event loop.

    The command gets an end that is open for reading too. So it is not killed by SIGPIPE if this process dies: it
    runs on, and blocks only after it has filled the pipe.
    """

    def __init__(self, sink: BoundedFile) -> None:
        self._sink = sink
        self._ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.theirs = os.open(f"/proc/self/fd/{theirs}", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            os.close(self._ours)
            raise
        finally:
            os.close(theirs)
        with suppress(OSError):  # above the host's limit for this user: the pipe keeps its usual 64 KiB
            fcntl.fcntl(self.theirs, fcntl.F_SETPIPE_SZ, MAX_FILE_BYTES)
        self._ended = asyncio.Event()

    @classmethod
    def into(cls, path: Path) -> Self:
        """Make the file and the pipe.

        Raises:
            OSError: one of them cannot be made.
        """
        sink = BoundedFile(path)
        try:
            return cls(sink)
        except OSError:
            sink.close()
            raise

    @property
    def last(self) -> bytes:
        """The last bytes of the stream so far, at most 1 KiB."""
        return self._sink.last

    @property
    def inode(self) -> int | None:
        """What names the pipe to every process that holds it; None once all that could write have closed it."""
        return os.fstat(self._ours).st_ino if self._ours >= 0 else None

    def start(self) -> None:
        """Let go of the command's end, and read."""
        self._close_theirs()
        asyncio.get_running_loop().add_reader(self._ours, self._readable)

    async def drained(self) -> None:
        """Wait until every process that could write has closed its end."""
        await self._ended.wait()

    def close(self) -> None:
        """Stop reading and close the file. Idempotent."""
        self._close_theirs()
        if self._ours >= 0:
            asyncio.get_running_loop().remove_reader(self._ours)
            os.close(self._ours)
            self._ours = -1
        self._sink.close()
        self._ended.set()

    def _readable(self) -> None:
        try:
            chunk = os.read(self._ours, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if chunk:
            self._sink.take(chunk)
        else:
            self.close()

    def _close_theirs(self) -> None:
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1


def tail_text(*streams: bytes) -> str:
    """Return the end of the first stream that holds anything, at most 1 KiB of UTF-8, broken characters replaced."""
    for stream in streams:
        text = stream.decode(errors="replace").strip()
        if text:
            return text.encode()[-_LAST_BYTES:].decode(errors="ignore")
    return ""
