"""One command's process tree, from its start to the proof that nothing of it is alive."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

from worker.engine import host
from worker.engine.base import OutcomeUnknown
from worker.engine.keeping import Keeper
from worker.engine.output import Pipe, tail_text
from worker.outcome import Outcome, Receipt
from worker.ports import Clock

_LOOK_FIRST_S: Final = 0.01
_LOOK_MOST_S: Final = 0.25
_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the parts of an end may take, in seconds.

    Attributes:
        stop_grace_s: from SIGTERM to SIGKILL when the work is stopped or its time is over.
        leftover_grace_s: the same for what a command left running when it ended by itself.
        kill_s: from the first SIGKILL to giving up, if something stays alive.
        drain_s: how long output is read after the last process of the tree has ended.
    """

    stop_grace_s: float = 10.0
    leftover_grace_s: float = 1.0
    kill_s: float = 30.0
    drain_s: float = 2.0


class Cause(Enum):
    """Why observation turned from waiting to clearing up."""

    EXITED = "exited"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    KEEPER_LOST = "keeper_lost"


@dataclass(frozen=True, slots=True)
class _Look:
    """What is alive of an attempt: its tree, and what carries its variables outside of that."""

    inside: list[host.Process]
    outside: list[host.Process]

    @property
    def all(self) -> list[host.Process]:
        return [*self.inside, *self.outside]


class CommandWork:
    """A started command: implements `base.Work`."""

    def __init__(
        self,
        keeper: Keeper,
        pipes: Sequence[Pipe],
        *,
        key: tuple[str, int],
        receipt: Receipt,
        timeout_s: float | None,
        limits: Limits,
        clock: Clock,
    ) -> None:
        """Take over a keeper that has started the command of the attempt `key`."""
        self.receipt = receipt
        self._keeper = keeper
        self._pipes = pipes
        self._key = key
        self._timeout_s = timeout_s
        self._limits = limits
        self._clock = clock
        self._stop_asked = False
        self._turn = asyncio.Event()
        self._told: dict[tuple[int, int], host.Process] = {}
        keeper.watch(self._turn.set)

    def stop(self) -> None:
        """Ask that the tree be ended; `observe` does it."""
        self._stop_asked = True
        self._turn.set()

    async def observe(self) -> Outcome:
        """Wait for the end, end what is left, and return the result (see `base.Work`)."""
        try:
            cause = await self._cause()
            await self._end_all(self._limits.leftover_grace_s if cause is Cause.EXITED else self._limits.stop_grace_s)
            await self._drain()
            return self._outcome(cause)
        finally:
            for pipe in self._pipes:
                pipe.close()

    async def _cause(self) -> Cause:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                await self._turn.wait()
        if self._keeper.exit_code is not None:
            return Cause.EXITED
        if self._keeper.over.is_set():
            return Cause.KEEPER_LOST
        return Cause.STOPPED if self._stop_asked else Cause.TIMED_OUT

    async def _end_all(self, grace_s: float) -> None:
        """SIGTERM each process once, SIGKILL what is alive after the grace, until the keeper says that none is left.

        Raises:
            OutcomeUnknown: something is alive long after SIGKILL, or the keeper ended without that word.
        """
        kill_mono_s = self._clock.mono_s() + grace_s
        pause_s = _LOOK_FIRST_S
        while True:
            over = self._keeper.over.is_set()
            late_s = self._clock.mono_s() - kill_mono_s
            look = await asyncio.to_thread(self._look, late=late_s >= 0)
            if over and not look.all:
                break
            if late_s >= self._limits.kill_s:
                raise OutcomeUnknown(f"not ended by SIGKILL within {self._limits.kill_s:.0f} s: {_names(look.all)}")
            if self._signal(look, late=late_s >= 0):
                pause_s = _LOOK_FIRST_S  # it still grows: what was born since is not left to bear again
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await (asyncio.Event() if over else self._keeper.over).wait()
            pause_s = min(2 * pause_s, _LOOK_MOST_S)
        if not self._keeper.empty:
            await self._tell_of_lost_keeper()

    def _look(self, *, late: bool) -> _Look:
        """Return what is alive and certainly of this attempt: all of its tree, as long as the keeper lives.

        Once it is late the tree is killed in the instant it is seen: what lives for milliseconds is gone afterwards.
        """
        inside = host.below(self._keeper.process)
        for each in inside if late else ():
            host.end_with_group(each)  # sessions of the tree were made in the tree: no stranger is in its groups
        known = {each.key for each in inside}
        outside = [each for each in host.marked(*self._key) if each.key not in known]
        if self._keeper.over.is_set() and not self._keeper.empty:
            known.update(each.key for each in outside)
            again = (host.process(pid) for pid, _ in self._told)
            outside += [each for each in again if each and each.alive and each.key in self._told.keys() - known]
        return _Look(inside, outside)

    def _signal(self, look: _Look, *, late: bool) -> bool:
        """Signal what was seen, except what died in the looking; return whether any of it is new."""
        fresh = [each for each in look.all if each.key not in self._told]
        for each in look.outside if late else fresh:
            host.send(each, signal.SIGKILL if late else signal.SIGTERM)
        self._told.update((each.key, each) for each in fresh)
        return bool(fresh)

    async def _tell_of_lost_keeper(self) -> None:
        """Raise, since without its keeper a tree may have lost members out of sight."""
        seen = await asyncio.to_thread(host.traces, *self._key, self._keeper.command)
        raise OutcomeUnknown(
            f"the process that kept its tree together (pid {self._keeper.process.pid}) was killed: what was found of"
            f" the tree was ended, what left its session and cleared its environment may be alive; {_names(seen)}"
        )

    async def _drain(self) -> None:
        """Read what is still in the pipes.

        Raises:
            OutcomeUnknown: a process that is not of the tree holds an output open: it was handed it, perhaps with work.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.drain_s):
                for pipe in self._pipes:
                    await pipe.drained()
                return
        held = {pipe.inode for pipe in self._pipes if pipe.inode is not None}
        pids = await asyncio.to_thread(host.holders, held)
        if held and (pids or any(pipe.inode is not None for pipe in self._pipes)):
            who = _pids(pids) if pids else "one that this user cannot see"
            raise OutcomeUnknown(f"its tree has ended, but a process outside of it still holds its output open: {who}")

    def _outcome(self, cause: Cause) -> Outcome:
        code = self._keeper.exit_code
        assert code is not None, "a keeper that says empty has reaped the command"
        succeeded = cause is Cause.EXITED and code == 0
        leftovers = len(self._told.keys() - {self._keeper.command})
        said = f"{leftovers} process(es) it left running were ended" if cause is Cause.EXITED and leftovers else ""
        return Outcome(
            succeeded=succeeded,
            reason=None if succeeded else "timeout" if cause is Cause.TIMED_OUT else "exit",
            exit_code=code,
            ended_ms=self._keeper.ended_ms,
            tail="" if succeeded else tail_text(*(pipe.last for pipe in reversed(self._pipes))),
            evidence=said,
        )


def _names(alive: Sequence[host.Process]) -> str:
    if not alive:
        return "no process of it can be seen alive"
    return f"alive: {_pids([each.pid for each in alive])}"


def _pids(pids: Sequence[int]) -> str:
    more = f" and {len(pids) - _MOST_NAMED} more" if len(pids) > _MOST_NAMED else ""
    return f"process(es) {', '.join(map(str, pids[:_MOST_NAMED]))}{more}"
