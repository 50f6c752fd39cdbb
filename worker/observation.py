"""Accepted work from here to its recorded end: observed by the life that launched it, or taken up by a later one."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from worker.engine.base import OutcomeUnknown, Work
from worker.ledger import Key, Ledger
from worker.ledger_row import End, LedgerRow, Lose, NoteStop

_log = structlog.get_logger("worker.observation")


class Watched(Protocol):
    """An attempt that this life works on."""

    @property
    def key(self) -> Key:
        """The run and the attempt."""
        ...

    async def run(self) -> None:
        """Carry it to its recorded end. Blocks: as long as the work lives."""
        ...

    async def stop(self) -> None:
        """Note a committed cancellation, and stop the work if there is any. Idempotent."""
        ...

    async def give_up(self, why: str) -> None:
        """Fence it if it was never launched; running work is left alone."""
        ...


async def end_of(work: Work, key: Key) -> End | Lose:
    """Wait for the end of accepted work, and return what is to be recorded of it.

    Blocks: as long as the work lives. Cancelled, it leaves the work running.
    """
    try:
        return End(await work.observe())
    except OutcomeUnknown as fault:
        _log.error("outcome_unknown", run_id=key[0], attempt=key[1], why=str(fault))
        return Lose(f"outcome_unknown: {fault}")


class Resumed:
    """Work that an earlier life of this ledger launched, and that its engine can still address."""

    def __init__(self, row: LedgerRow, work: Work, ledger: Ledger, changed: Callable[[], None]) -> None:
        """Take up an accepted row, which stays as it is until the work has ended.

        Args:
            changed: called after each step that gave the worker something to say.
        """
        self.key: Key = (row.binding.run_id, row.binding.attempt)
        self._work = work
        self._ledger = ledger
        self._changed = changed
        self._lock = asyncio.Lock()
        self._stopping = row.stop_noted_ms is not None
        if self._stopping:
            work.stop()  # the life that noted it may have died before it said so to the engine

    async def run(self) -> None:
        """Observe the work to its recorded end (see `Watched`)."""
        end = await end_of(self._work, self.key)
        async with self._lock:
            self._ledger.step(*self.key, end)
            self._changed()

    async def stop(self) -> None:
        """Note a committed cancellation, then stop the work (see `Watched`)."""
        if self._stopping:
            return
        self._stopping = True
        async with self._lock:
            self._ledger.step(*self.key, NoteStop())
            self._changed()
            self._work.stop()

    async def give_up(self, why: str) -> None:
        """Leave the work running: it was launched, and a later life observes it on."""
        _log.info("left_running", run_id=self.key[0], attempt=self.key[1], why=why)
