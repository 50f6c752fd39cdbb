"""Clients that use the cells of a storm, and note what they asked and what they were told."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.linearizability.cells import Add, Call, CompareAndSet, Read, Write, to_words
from tests.linearizability.history import Done, NotDone, Operation, Unknown
from tests.processes.storms.plan import NAMES
from tests.processes.storms.rig import Away, Connection, Rig

CLIENTS, READERS = 6, 3
REGISTERS = ("r1", "r2", "r3", "r4")
COUNTERS = ("c1", "c2")
PATIENCE_S = (0.08, 0.6)
PAUSE_S = 0.02


class Clients:
    """A few clients in one process, under one clock.

    Attributes:
        history: what became of each call that was sent.
    """

    def __init__(self, rig: Rig, dice: random.Random) -> None:
        self.history: list[Operation] = []
        self._rig, self._dice = rig, dice
        self._values: Iterator[int] = count(1)
        self._seen: dict[str, int] = dict.fromkeys(REGISTERS, 0)
        self._over = False

    async def run(self) -> None:
        """Use the cells until `end`."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._client())
            for _ in range(READERS):
                group.create_task(self._reader())

    def end(self) -> None:
        """Let each client finish what it has begun, and ask no more."""
        self._over = True

    def counts(self) -> Counter[str]:
        """Return how many calls ended in which way."""
        return Counter(type(operation.outcome).__name__ for operation in self.history)

    async def _client(self) -> None:
        connection: Connection | None = None
        while not self._over:
            await asyncio.sleep(self._dice.uniform(0, PAUSE_S))  # the pace of the load
            if connection is None:
                connection = await self._some_voter()
            if connection is not None and not await self.call(
                connection, *self._drawn(), self._dice.choice(PATIENCE_S)
            ):
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    async def _reader(self) -> None:
        """Read, and mostly stay with a voter that answers: it may be the last to know that it leads no more."""
        while not self._over:
            connection = await self._some_voter()
            while connection is not None and not self._over:
                await asyncio.sleep(self._dice.uniform(0, PAUSE_S))  # the pace of the load
                key = self._dice.choice((*REGISTERS, *COUNTERS))
                if not await self.call(connection, key, Read()) or self._dice.random() < 0.02:
                    break
            if connection is not None:
                connection.close()
            await asyncio.sleep(self._dice.uniform(0, PAUSE_S))

    async def _some_voter(self) -> Connection | None:
        name = self._rig.latest if self._dice.random() < 0.5 else self._dice.choice(NAMES)
        try:
            return await self._rig.connect(name)
        except Away:
            return None

    def _drawn(self) -> tuple[str, Call]:
        if self._dice.random() < 0.25:
            return self._dice.choice(COUNTERS), self._dice.choice((Read(), Add(1)))
        key = self._dice.choice(REGISTERS)
        kind = self._dice.random()
        if kind < 0.45:
            return key, Read()
        if kind < 0.95:
            return key, CompareAndSet(self._seen[key], next(self._values))
        return key, Write(next(self._values))

    async def call(self, connection: Connection, key: str, call: Call, patience_s: float = 2.0) -> bool:
        """Ask once and note what came of it; returns whether the same voter is worth asking again."""
        within_s = self._dice.choice((0.05, 10.0))
        called = time.monotonic()
        answer: list[Any] | None = None
        try:
            async with asyncio.timeout(patience_s):
                answer = await connection.ask(["call", key, to_words(call), within_s])
        except TimeoutError:
            pass
        answered = time.monotonic()
        match answer:
            case ["done", result]:
                self._rig.latest = connection.name
                self._note_value(key, call, result)
                self.history.append(Operation(key, call, called, Done(result, answered)))
                return True
            case ["not_done", why]:
                self.history.append(Operation(key, call, called, NotDone()))
                return why.startswith("expired")
            case _:  # `unknown`, a connection that broke, no answer in time
                self.history.append(Operation(key, call, called, Unknown()))
                return False

    def _note_value(self, key: str, call: Call, result: object) -> None:
        match call:
            case Read() if key in self._seen:
                assert isinstance(result, int)
                self._seen[key] = result
            case Write(value=value):
                self._seen[key] = value
            case CompareAndSet(value=value) if result:
                self._seen[key] = value
            case _:
                pass
