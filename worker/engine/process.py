"""One command's process tree, from its start to the moment when nothing of it is alive."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

from worker.engine import host
from worker.engine.output import Pipe, tail_text
from worker.outcome import Outcome, Receipt
from worker.ports import Clock

_LOOKS_IN_A_ROW: Final = 2  # a process that forks while we look may be missed once, not twice
_LOOK_FIRST_S: Final = 0.01
_LOOK_MOST_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the parts of an end may take, in seconds.

    Attributes:
        stop_grace_s: from SIGTERM to SIGKILL when the work is stopped or its time is over.
        leftover_grace_s: the same for what a command left running when it ended by itself.
        drain_s: how long output is read after the last process that we know of has ended.
    """

    stop_grace_s: float = 10.0
    leftover_grace_s: float = 1.0
    drain_s: float = 2.0


class Cause(Enum):
    """Why observation turned from waiting to clearing up."""

    EXITED = "exited"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"


class CommandWork:
    """A started command: implements `base.Work`.

    The leader is not reaped before everything else of the tree is gone: as a zombie it pins its pid, so that
    signalling its process group can never hit a stranger's.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pipes: Sequence[Pipe],
        *,
        mark: host.Mark,
        receipt: Receipt,
        timeout_s: float | None,
        limits: Limits,
        clock: Clock,
    ) -> None:
        """Take over a process that was just started in a session of its own.

        Raises:
            OSError: the process cannot be watched; it is running all the same.
        """
        self.receipt = receipt
        self._process = process
        self._pipes = pipes
        self._mark = mark
        self._timeout_s = timeout_s
        self._limits = limits
        self._clock = clock
        self._exited = asyncio.Event()
        self._turn = asyncio.Event()
        self._ended_ms = 0
        self._handle = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._handle, self._on_exit)

    def stop(self) -> None:
        """Ask that the tree be ended; `observe` does it."""
        self._turn.set()

    async def observe(self) -> Outcome:
        """Wait for the end, end what is left, and return the result (see `base.Work`)."""
        try:
            cause = await self._cause()
            grace_s = self._limits.leftover_grace_s if cause is Cause.EXITED else self._limits.stop_grace_s
            ended = await self._end_all(grace_s)
            await self._exited.wait()
            cut = await self._drain()
            return self._outcome(cause, self._process.wait(), leftovers=len(ended - {self._mark.leader}), cut=cut)
        finally:
            self._release()

    async def _cause(self) -> Cause:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                await self._turn.wait()
        if self._exited.is_set():
            return Cause.EXITED
        return Cause.STOPPED if self._turn.is_set() else Cause.TIMED_OUT

    async def _end_all(self, grace_s: float) -> set[int]:
        """SIGTERM each process of the tree once, SIGKILL what is alive after the grace; return the pids signalled.

        Blocks: until two looks in a row found nothing alive. A process that even SIGKILL does not end (stuck in the
            kernel) keeps the work alive, which is what it is.
        """
        give_up_mono_s = self._clock.mono_s() + grace_s
        told: set[int] = set()
        clear, pause_s = 0, _LOOK_FIRST_S
        while clear < _LOOKS_IN_A_ROW:
            alive = await asyncio.to_thread(host.members, self._mark)
            if not alive:
                clear += 1
                continue
            clear = 0
            self._signal(alive, told, late=self._clock.mono_s() >= give_up_mono_s)
            told.update(each.pid for each in alive)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LOOK_MOST_S)
        return told

    def _signal(self, alive: Sequence[host.Process], told: set[int], *, late: bool) -> None:
        if late:
            with suppress(OSError):  # the whole group in one stroke, so that no fork slips through
                os.killpg(self._mark.leader, signal.SIGKILL)
        for each in alive:
            if late:
                host.send(each, signal.SIGKILL)
            elif each.pid not in told:
                host.send(each, signal.SIGTERM)

    async def _drain(self) -> bool:
        """Read what is still in the pipes; True if something that we cannot see held one open past the limit."""
        try:
            async with asyncio.timeout(self._limits.drain_s):
                for pipe in self._pipes:
                    await pipe.drained()
        except TimeoutError:
            return True
        return False

    def _outcome(self, cause: Cause, exit_code: int, *, leftovers: int, cut: bool) -> Outcome:
        succeeded = cause is Cause.EXITED and exit_code == 0
        said = []
        if cause is Cause.EXITED and leftovers:
            said.append(f"{leftovers} process(es) it left running were ended")
        if cut:
            said.append("a process outside its group, without its environment, still held its output open")
        return Outcome(
            succeeded=succeeded,
            reason=None if succeeded else "timeout" if cause is Cause.TIMED_OUT else "exit",
            exit_code=exit_code,
            ended_ms=self._ended_ms,
            tail="" if succeeded else tail_text(*(pipe.last for pipe in reversed(self._pipes))),
            evidence="; ".join(said),
        )

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        self._ended_ms = self._clock.wall_ms()
        self._exited.set()
        self._turn.set()

    def _release(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        for pipe in self._pipes:
            pipe.close()
