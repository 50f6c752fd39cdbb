"""How a commit of raft.db becomes durable, and on which thread: in the loop's where the disk is fast.

A commit writes into the WAL and syncs nothing (`synchronous=NORMAL`); the WAL's own fdatasync follows, which may
take long and is therefore ours to place. SQLite syncs a WAL itself only when it starts it anew or copies it.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from cluster.ports import Clock

SLOW_S: Final = 0.0015
"""From this mean on, a flush goes to a thread: the loop then serves others meanwhile, for a hand-over of some 0.1 ms."""
FAST_S: Final = 0.0008  # below this mean it comes back
WEIGHT: Final = 0.1  # of the newest flush in the moving mean


class WalFlush:
    """The fdatasync of one file's WAL, on a descriptor of its own (SQLite locks nothing on a WAL)."""

    def __init__(self, path: Path) -> None:
        """Name the file; its WAL need not be there yet."""
        self._path = path.with_name(path.name + "-wal")
        self._descriptor = -1

    def __call__(self) -> None:
        """Make the bytes of the WAL durable.

        Raises:
            OSError: the disk failed; what was written may or may not be there.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Give the descriptor up. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Flusher:
    """Runs flushes one at a time, where they cost the loop least."""

    def __init__(self, clock: Clock) -> None:
        """Begin in the loop: nothing is known of the disk."""
        self._now_s = clock.mono_s
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flush")
        self._mean_s = 0.0
        self.off_loop = False

    async def run(self, flush: Callable[[], None]) -> None:
        """Carry out one flush. If cancelled, a thread may still be at it until `close()` returns.

        Raises:
            FailStop: the flush failed.
        """
        if self.off_loop:
            took_s = await asyncio.get_running_loop().run_in_executor(self._executor, self._timed, flush)
        else:
            took_s = self._timed(flush)
        self.learn(took_s)

    def learn(self, took_s: float) -> None:
        """Take into account how long a flush took, in seconds."""
        self._mean_s += WEIGHT * (took_s - self._mean_s)
        self.off_loop = self._mean_s > (FAST_S if self.off_loop else SLOW_S)

    def _timed(self, flush: Callable[[], None]) -> float:
        began_s = self._now_s()
        flush()
        return self._now_s() - began_s

    async def close(self) -> None:
        """Wait for a flush under way. Idempotent."""
        await asyncio.to_thread(self._executor.shutdown)
