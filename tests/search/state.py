"""The state of the whole: checkpoint, what the owner remembers, workers' lives and ledgers, engines, messages.

Everything is hashable, and only what leads on is in it: instants, words and evidence are left out, so that two
histories that lead to the same future are one state. Large parts are interned and stand here as numbers.
"""

from typing import Any, NamedTuple

from worker.protocol import Held

NONE = 0
"""The interned number of what is not there."""

BUDGETS = (
    "crash",
    "cancel",
    "attest",
    "freeze",
    "redeliver",
    "restore",
    "wipe",
    "clone",
    "drain",
    "takeover",
    "stale",
)


class Life(NamedTuple):
    """One process life of a worker.

    Attributes:
        ledger: which ledger file of its worker it has open.
        number: counts the lives of that ledger.
        closing: it was asked to drain, or was told that it is retired.
        attested: a human stated that nothing of it is alive.
        generation: the highest that its ledger heard of.
    """

    worker: str
    ledger: str
    incarnation: str
    number: int
    alive: bool = True
    closing: bool = False
    attested: bool = False
    generation: int = 1


class Task(NamedTuple):
    """What became of one attempt outside the checkpoint.

    Attributes:
        row: the ledger row.
        said: the words that were ever sent of it: each may arrive, late or twice or never.
        hand: what the living invocation is doing: `asking`, `launching` (it holds the lock), `watching`, or nothing.
        engine: `-` never asked, `i` the request is on its way, `L` it got lost, `a` the work is alive,
            `S` and `F` it ended by itself, `R` refused, `X` it was stopped.
        stopping: the engine was asked to stop it.
        submissions: how often the engine was asked to start it.
        permits: who was ever told of a permit: incarnation and reservation.
    """

    row: int = NONE
    said: int = NONE
    hand: str = ""
    engine: str = "-"
    stopping: bool = False
    submissions: int = 0
    permits: tuple[tuple[str, str], ...] = ()


Listed = tuple[tuple[int, Held, bool], ...]
"""What a poll lists: places of tasks, how it tells them, and whether that very life has them in hand."""


class Flight(NamedTuple):
    """A poll on its way.

    Attributes:
        epoch: of the owner whose reply the life had last heard.
        asked: tasks whose permit was asked for after this poll was sent, as far as the present owner knows.
    """

    life: int
    listed: Listed
    epoch: int
    asked: tuple[int, ...] = ()


class State(NamedTuple):
    """All of it.

    Attributes:
        book: the checkpoint's rows.
        heard: for each worker the life that the owner last heard, -1 for none in this tenure.
        tasks: for each run and each of its attempts, in order.
        flight: a poll that is long on its way.
        stale: the operation that a replaced owner still has in flight.
        image: the checkpoint's rows as a backup holds them.
    """

    book: int
    heard: tuple[int, ...]
    lives: tuple[Life, ...]
    tasks: tuple[Task, ...]
    budget: tuple[int, ...]
    stale: int = NONE
    image: int = NONE
    frozen: bool = False
    flight: Flight | None = None

    def spend(self, what: str) -> "State | None":
        """Return the state with one less of a budget, or None if nothing of it is left."""
        at = BUDGETS.index(what)
        if self.budget[at] == 0:
            return None
        return self._replace(budget=(*self.budget[:at], self.budget[at] - 1, *self.budget[at + 1 :]))

    def with_task(self, at: int, task: Task) -> "State":
        """Return the state with one task changed."""
        return self._replace(tasks=(*self.tasks[:at], task, *self.tasks[at + 1 :]))

    def with_life(self, at: int, life: Life) -> "State":
        """Return the state with one life changed."""
        return self._replace(lives=(*self.lives[:at], life, *self.lives[at + 1 :]))


class Interned:
    """Gives each different value a small number, from 1 on; equal values have the same."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._values: list[object] = [None]

    def number(self, value: object) -> int:
        """Return the number of a value."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found

    def __getitem__(self, number: int) -> Any:
        """Return the value of a number; None for `NONE`."""
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values) - 1
