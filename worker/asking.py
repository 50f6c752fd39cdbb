"""Asking for permits: all open asks of the worker in one request, repeated until answered."""

import asyncio
from typing import Final

from worker.backoff import Backoff
from worker.client import Admission, NotAnswered
from worker.incarnation import Incarnation
from worker.ledger import Key
from worker.protocol import VERSION, Answer, PermitRequest, Permits
from worker.words import NOT_YET

_BATCH: Final = 500


class Asker:
    """Keeps the open asks and repeats them; the owner tells the same reservation of the same permit."""

    def __init__(self, admission: Admission, life: Incarnation, backoff: Backoff) -> None:
        self._admission = admission
        self._life = life
        self._backoff = backoff
        self._open: dict[Key, tuple[PermitRequest, asyncio.Future[Answer | None]]] = {}
        self._wanted = asyncio.Event()

    async def ask(self, request: PermitRequest) -> Answer | None:
        """Return the owner's answer to a durably reserved request, or None if it was withdrawn.

        Blocks: until answered, withdrawn or cancelled; a permit may exist in the last two cases.
        """
        key = (request.binding.run_id, request.binding.attempt)
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._open[key] = (request, answer)
        self._wanted.set()
        try:
            return await answer
        finally:
            del self._open[key]

    def withdraw(self, key: Key) -> None:
        """End an open ask without an answer; nothing happens if there is none."""
        if key in self._open:
            self._settle(key, None)

    async def run(self) -> None:
        """Send what is asked, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                answered, retry_after_s = await self._send(), 0.0
            except NotAnswered as fault:
                answered, retry_after_s = False, fault.retry_after_s or 0.0
            if answered:
                self._backoff.reset()
            else:
                await asyncio.sleep(max(self._backoff.pause_s(), retry_after_s))
                self._wanted.set()

    async def _send(self) -> bool:
        """Send the oldest open asks once; True if none of those sent is left open. Raises NotAnswered."""
        requests = [request for request, answer in self._open.values() if not answer.done()][:_BATCH]
        if not requests:
            return True
        if len(self._open) > len(requests):
            self._wanted.set()
        lineage = self._life.lineage
        message = Permits(VERSION, self._life.next_number(), requests, lineage.cluster_id, lineage.generation)
        answers = await self._admission.permits(message)
        waiting = False
        for request, answer in zip(requests, answers, strict=True):
            if answer.kind == "denied" and answer.reason in NOT_YET:
                waiting = True
            else:
                self._settle((request.binding.run_id, request.binding.attempt), answer)
        return not waiting

    def _settle(self, key: Key, answer: Answer | None) -> None:
        _, waiting = self._open.get(key, (None, None))
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
