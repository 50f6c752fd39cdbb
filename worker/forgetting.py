"""Asks whether the owner still keeps the run of a row that was finally answered long ago; if not, the row may go.

The question is the row's last report, said once more: its repetition changes nothing, and `no_such_run` is the answer
that its run was forgotten. So the ledger never forgets an attempt before the checkpoint does, however long that keeps it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from worker.client import Admission, NotAnswered
from worker.incarnation import Incarnation
from worker.ledger import Ledger
from worker.ledger_row import LedgerRow, Remember
from worker.ports import Clock
from worker.protocol import VERSION, Answer, FenceRequest, Fences, Reports
from worker.timing import Timing
from worker.words import Word, key_of, last_word

_log = structlog.get_logger("worker.forgetting")
GONE: Final = "no_such_run"
BATCH: Final = 64  # as many as one message of reports takes
AWAY_S: Final = 60.0  # after a question that nobody answered
PAUSE_S: Final = 1.0  # between batches: whoever was away for a year has no hurry


class Forgetter:
    """Goes through old rows, a batch at a time; reads its work from the ledger each time."""

    def __init__(
        self, *, ledger: Ledger, admission: Admission, life: Incarnation, clock: Clock, timing: Timing
    ) -> None:
        self._ledger = ledger
        self._admission = admission
        self._life = life
        self._clock = clock
        self._timing = timing

    async def run(self) -> None:
        """Ask and forget, until cancelled."""
        while True:
            pause_s = await self._step()
            await asyncio.sleep(pause_s)

    async def _step(self) -> float:
        """Settle one batch; return how long to pause before the next one, in seconds."""
        before_ms = self._clock.wall_ms() - int(self._timing.retention_s * 1_000)
        rows = self._ledger.settled(before_ms=before_ms, limit=BATCH)
        if not rows:
            return self._timing.prune_every_s
        known_gone = [row for row in rows if row.answer == GONE]
        self._ledger.forget(_keys(known_gone))
        asked = [row for row in rows if row.answer != GONE]
        try:
            answers = await self._ask([last_word(row) for row in asked])
        except NotAnswered as fault:
            _log.debug("not_answered", why=str(fault))
            return max(AWAY_S, fault.retry_after_s or 0.0)
        gone = [row for row in asked if answers[_key(row)].kind == GONE]
        self._ledger.forget(_keys(gone))
        self._ledger.steps([(_key(row), Remember()) for row in asked if row not in gone])
        if known_gone or gone:
            _log.info("forgotten", rows=len(known_gone) + len(gone))
        return PAUSE_S

    async def _ask(self, said: Sequence[Word]) -> dict[tuple[str, int], Answer]:
        """Return the answer to each word by its attempt."""
        fences = [word for word in said if isinstance(word, FenceRequest)]
        reports = [word for word in said if not isinstance(word, FenceRequest)]
        lineage = (self._life.lineage.cluster_id, self._life.lineage.generation)  # of another one, no answer counts
        answers: list[tuple[Word, Answer]] = []
        if fences:
            message = Fences(VERSION, self._life.next_number(), fences, *lineage)
            answers += zip(fences, await self._admission.fences(message), strict=True)
        if reports:
            told = Reports(VERSION, self._life.next_number(), reports, *lineage)
            answers += zip(reports, await self._admission.reports(told), strict=True)
        return {key_of(word): answer for word, answer in answers}


def _key(row: LedgerRow) -> tuple[str, int]:
    return row.binding.run_id, row.binding.attempt


def _keys(rows: Sequence[LedgerRow]) -> list[tuple[str, int]]:
    return [_key(row) for row in rows]
