"""All the steps that may come next: what stands between the product's pure tables, and nothing that they decide.

A message needs no queue: whatever was once said may arrive at any later time, any number of times, or never. A step
that is not a fault nor a person's choice is `ONWARD`: the walk asks whether such steps alone lead to a good end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from runner import ids
from runner.checkpoint import ops
from runner.checkpoint.records import Attempt
from tests.search.book import CLUSTER, INTERVAL_MS, SCHEDULE, Book, Change, Look
from tests.search.bounds import Bounds
from tests.search.notes import Notes
from tests.search.state import BUDGETS, Life, State, Task

T = TypeVar("T")
ONWARD, FAULT, PERSON = "onward", "fault", "person"
NOBODY = -1


class Step(NamedTuple):
    """One step: in words (a text and what it is about), of which kind, to where; `wrong` if it must never be."""

    said: tuple[object, ...]
    kind: str
    state: State
    wrong: str = ""


@dataclass
class World:
    """What is the same in all states of one walk."""

    bounds: Bounds
    remembered: dict[object, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.book = Book(self.bounds)
        self.notes = Notes(self.book.numbered, addressable=self.bounds.remote)
        self.instants = [INTERVAL_MS * (r + 1) for r in range(self.bounds.runs)]
        self.run_ids = [ids.run_id(CLUSTER, SCHEDULE, ids.occurrence_text(ms), ms) for ms in self.instants]
        self.places = {
            (run_id, n + 1): r * self.bounds.attempts + n
            for r, run_id in enumerate(self.run_ids)
            for n in range(self.bounds.attempts)
        }

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return what was made for this key, or make it."""
        found = self.remembered.get(key)
        if found is None:
            found = self.remembered[key] = make()
        return found

    def start(self) -> State:
        """Return the first state: a schedule is applied, its workers run, nothing is due yet."""
        lives = tuple(life(f"w{w + 1}", f"w{w + 1}-disk", 1, ()) for w in range(self.bounds.workers))
        return State(
            book=self.book.start,
            heard=(NOBODY,) * self.bounds.workers,
            lives=lives,
            tasks=(Task(),) * len(self.places),
            budget=tuple(self.bounds.budget.get(what, 0) for what in BUDGETS),
        )

    def look(self, s: State) -> Look:
        """Return what the checkpoint says in a state."""
        return self.book.look(s.book)

    def attempts(self, s: State) -> Iterator[tuple[int, Attempt]]:
        """Yield every attempt of the checkpoint with the place of its task."""
        for run_id, attempts in self.look(s).attempts.items():
            for attempt in attempts:
                yield self.places[run_id, attempt.n], attempt

    def attempt(self, s: State, at: int) -> Attempt | None:
        """Return the attempt of a task, or None."""
        run_id, n = self.key(at)
        attempts = self.look(s).attempts.get(run_id, [])
        return attempts[n - 1] if n <= len(attempts) else None

    def key(self, at: int) -> tuple[str, int]:
        """Return run id and number of the attempt at a place."""
        run, n = divmod(at, self.bounds.attempts)
        return self.run_ids[run], n + 1

    def name(self, at: int) -> str:
        """Return how traces call the attempt at a place."""
        run, n = divmod(at, self.bounds.attempts)
        return f"{run + 1}.{n + 1}"

    def commit(self, s: State, op: int) -> tuple[State, Change, str]:
        """Return the state once the owner's command with this operation is committed, and what is wrong with that."""
        change = self.book.apply(s.book, op)
        after = s if change.book == s.book else s._replace(book=change.book)
        kind, wrong = change.result.kind, change.wrong
        if kind == "claimed":
            wrong = wrong or _given(s, self.book.numbered[op].incarnation, "a claim")
        if (
            kind == "done"
            and s.frozen
            and change.book != s.book
            and isinstance(self.book.numbered[op], ops.Materialise)
        ):
            wrong = wrong or "an instant materialised while frozen"
        if kind == "granted":
            after, fault = self._permitted(s, after, self.book.numbered[op], change)
            wrong = wrong or fault
        return after, change, wrong

    def _permitted(self, s: State, after: State, op: ops.AdmitOp, change: Change) -> tuple[State, str]:
        at = self.places[op.binding.run_id, op.binding.attempt]
        task, who = after.tasks[at], (op.binding.incarnation, op.reservation)
        if who in task.permits:
            return after, ""
        wrong = _given(s, who[0], "a permit") or ("invariant 1: a second permit" if task.permits else "")
        if change.result.again:
            wrong = wrong or "invariant 1: a permit is said to be repeated that was never given"
        return after.with_task(at, task._replace(permits=(*task.permits, who))), wrong


def _given(s: State, incarnation: str, what: str) -> str:
    if s.frozen:
        return f"{what} while frozen"
    if any(each.incarnation == incarnation and each.attested for each in s.lives):
        return f"{what} for an incarnation that was attested quiescent"
    return ""


def life(worker: str, ledger: str, number: int, lives: tuple[Life, ...]) -> Life:
    """Return a fresh process life of a worker."""
    nth = sum(each.worker == worker for each in lives)
    heard = (each.generation for each in lives if (each.worker, each.ledger) == (worker, ledger))
    return Life(worker, ledger, f"{worker}{'abcdef'[nth]}", number, generation=max(heard, default=1))


def host_of(s: State, worker: str, ledger: str) -> int:
    """Return the living process that has this ledger open, or `NOBODY`."""
    for i, each in enumerate(s.lives):
        if each.alive and (each.worker, each.ledger) == (worker, ledger):
            return i
    return NOBODY


def in_hand_of(notes: Notes, task: Task, who: Life) -> bool:
    """Return whether this life is working on a task: of one ledger only one process at a time is."""
    if not (task.hand and who.alive):
        return False
    row = notes.row(task)
    return (row.binding.worker, row.binding.ledger) == (who.worker, who.ledger)


def life_of(s: State, incarnation: str) -> int:
    """Return the life of this name, or `NOBODY`."""
    return next((i for i, each in enumerate(s.lives) if each.incarnation == incarnation), NOBODY)
