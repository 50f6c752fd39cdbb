"""Calls that may block for ever, kept away from the event loop and from the end of the process."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class OwnThread:
    """One thread that makes one call at a time; a daemon, so that no exit waits for what never returns."""

    def __init__(self, name: str) -> None:
        """Start it; it idles until it is asked."""
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def call(self, function: Callable[[], T]) -> T:
        """Return what the function returns, or raise what it raises.

        Blocks: as long as it does; cancelling the wait leaves the call to itself.
        """
        future: Future[T] = Future()
        self._calls.put((function, future))
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        while True:
            function, future = self._calls.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                outcome = function()
            except BaseException as fault:  # noqa: BLE001 - it is raised where it is awaited
                future.set_exception(fault)
            else:
                future.set_result(outcome)
