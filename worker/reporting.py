"""Says what the ledger has to say, again and again, until the owner has finally answered each word."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from worker.backoff import Backoff
from worker.client import Admission, NotAnswered
from worker.incarnation import Incarnation
from worker.ledger import Key, Ledger
from worker.ledger_row import Command
from worker.ports import Clock
from worker.protocol import VERSION, Accept, Answer, CannotTell, FenceRequest, Fences, Reports
from worker.timing import Timing
from worker.words import FINAL, Word, key_of, meaning, words

_log = structlog.get_logger("worker.reporting")
_BATCH: Final = 64  # reports of 2 KiB of text, escaped at worst, stay below the body limit


class Reporter:
    """Reads its work from the ledger each time, so that it survives anything that the ledger survives."""

    def __init__(
        self, *, ledger: Ledger, admission: Admission, life: Incarnation, backoff: Backoff, clock: Clock, timing: Timing
    ) -> None:
        self._ledger = ledger
        self._admission = admission
        self._life = life
        self._backoff = backoff
        self._clock = clock
        self._timing = timing
        self._news = asyncio.Event()
        self._quiet = asyncio.Event()
        self._not_before_mono_s: dict[Key, float] = {}
        self._rowless: dict[Key, CannotTell | None] = {}

    def wake(self) -> None:
        """There may be something new to say."""
        self._quiet.clear()
        self._news.set()

    def no_row(self, key: Key) -> None:
        """Say of an attempt that this ledger has no row for it, which proves nothing. Idempotent."""
        if key in self._rowless:
            return
        run_id, attempt = key
        evidence = "the ledger has no row for this attempt: nothing can be told, not even that it was never launched"
        self._rowless[key] = CannotTell(
            run_id=run_id, attempt=attempt, incarnation=self._life.id, ledger=self._life.ledger, evidence=evidence
        )
        self.wake()

    async def quiet(self) -> None:
        """Wait until there is nothing left to say."""
        await self._quiet.wait()

    async def run(self) -> None:
        """Report, until cancelled."""
        while True:
            self._news.clear()
            said, pause_s = self._due()
            if said:
                pause_s = await self._say(said)
            elif pause_s is None:
                self._quiet.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._news.wait()

    def _due(self) -> tuple[list[Word], float | None]:
        """Return the next words to say, and how long to wait where there are none (None: for news)."""
        mono_s = self._clock.mono_s()
        open_words = [word for row in self._ledger.unanswered() for word in words(row)]
        open_words += [word for word in self._rowless.values() if word is not None]
        waits_s = {key: until_s - mono_s for key, until_s in self._not_before_mono_s.items() if until_s > mono_s}
        self._not_before_mono_s = {key: mono_s + wait_s for key, wait_s in waits_s.items()}
        due = [word for word in open_words if key_of(word) not in waits_s]
        if due or not open_words:
            return due[:_BATCH], None
        return [], min(waits_s.values())

    async def _say(self, said: Sequence[Word]) -> float:
        """Send words and keep what was answered; return how long to pause, in seconds."""
        fences = [word for word in said if isinstance(word, FenceRequest)]
        reports = [word for word in said if not isinstance(word, FenceRequest)]
        lineage = (self._life.lineage.cluster_id, self._life.lineage.generation)
        try:
            if fences:
                message = Fences(VERSION, self._life.next_number(), fences, *lineage)
                self._hear(fences, await self._admission.fences(message))
            if reports:
                told = Reports(VERSION, self._life.next_number(), reports, *lineage)
                self._hear(reports, await self._admission.reports(told))
        except NotAnswered as fault:
            _log.debug("not_answered", why=str(fault))
            await asyncio.sleep(fault.retry_after_s or 0.0)  # news does not shorten what the other side asked for
            return self._backoff.pause_s()
        self._backoff.reset()
        return 0.0

    def _hear(self, said: Sequence[Word], answers: Sequence[Answer]) -> None:
        changes: list[tuple[Key, Command]] = []
        for word, answer in zip(said, answers, strict=True):
            key = key_of(word)
            if answer.kind == "denied" and not isinstance(word, Accept):
                _log.warning("denied", run_id=key[0], attempt=key[1], said=type(word).__name__, why=answer.reason)
                self._not_before_mono_s[key] = self._clock.mono_s() + self._timing.denied_repeat_s
            if self._rowless.get(key) is not None:
                self._rowless[key] = None if answer.kind in FINAL else self._rowless[key]
                continue
            change = meaning(word, answer)
            if change is not None:
                changes.append((key, change))
        self._ledger.steps(changes)
