"""The walk: breadth first, so that every trace is a shortest one; then liveness, backwards from every good end."""

import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.search import owner, people, polls, workers
from tests.search.book import TOO_LARGE
from tests.search.bounds import Bounds
from tests.search.state import State
from tests.search.world import FAULT, Step, World
from tests.search.wrongs import good, wrong

STUCK = "invariant 11: without new faults no end can be reached from here"


@dataclass
class Found:
    """What one walk saw; `traces` has the shortest way to each kind of wrong."""

    name: str
    states: int = 0
    steps: int = 0
    books: int = 0
    seconds: float = 0.0
    whole: bool = True
    traces: dict[str, list[str]] = field(default_factory=dict)


def successors(world: World, s: State) -> Iterator[Step]:
    """Yield every step out of a state that the walk follows."""
    for part in (owner.steps, polls.steps, workers.steps, people.steps):
        for step in part(world, s):
            if step.wrong != TOO_LARGE:
                yield step


def walk(bounds: Bounds, *, first: bool = False, limit: int = 3_000_000) -> Found:
    """Visit every state within the bounds; with `first`, stop at the first thing that is wrong."""
    began = time.process_time()
    world = World(bounds)
    tree = _Tree(world)
    found = Found(bounds.name)
    at = 0
    while at < len(tree.states) and not (first and found.traces):
        for step in successors(world, tree.states[at]):
            found.steps += 1
            bad = step.wrong or (wrong(world, step.state) if step.state not in tree.index else "")
            if bad:
                tree.ends.add(at)
                if bad not in found.traces:
                    found.traces[bad] = [*tree.trace(at), told(step)]
            elif len(tree.states) < limit or step.state in tree.index:
                tree.grow(at, step)
            else:
                found.whole = False
        at += 1
    if found.whole and not found.traces:
        stuck = tree.stuck()
        if stuck is not None:
            found.traces[STUCK] = [*tree.trace(stuck), *_as_it_is(world, tree.states[stuck])]
    found.states, found.books = len(tree.states), len(world.book.states)
    found.seconds = time.process_time() - began
    return found


class _Tree:
    """All states seen, how each was first reached, and the steps that lead on without faults."""

    def __init__(self, world: World) -> None:
        self.world = world
        start = world.start()
        self.states = [start]
        self.index = {start: 0}
        self.parents = array("i", [-1])
        self.sources, self.targets = array("i"), array("i")
        self.ends: set[int] = set()

    def grow(self, at: int, step: Step) -> None:
        to = self.index.get(step.state)
        if to is None:
            to = self.index[step.state] = len(self.states)
            self.states.append(step.state)
            self.parents.append(at)
        if step.kind != FAULT:
            self.sources.append(at)
            self.targets.append(to)

    def trace(self, at: int) -> list[str]:
        """Return the words of the steps from the start to a state."""
        words: list[str] = []
        while at:
            before = self.parents[at]
            way = successors(self.world, self.states[before])
            words.append(told(next(step for step in way if step.state == self.states[at])))
            at = before
        return words[::-1]

    def stuck(self) -> int | None:
        """Return the first state from which steps without faults lead to no good end, or None."""
        into: list[list[int]] = [[] for _ in self.states]
        for source, target in zip(self.sources, self.targets, strict=True):
            into[target].append(source)
        fine = bytearray(len(self.states))
        queue = [at for at, state in enumerate(self.states) if at in self.ends or good(self.world, state)]
        for at in queue:
            fine[at] = 1
        while queue:
            for source in into[queue.pop()]:
                if not fine[source]:
                    fine[source] = 1
                    queue.append(source)
        return next((at for at, ok in enumerate(fine) if not ok), None)


def told(step: Step) -> str:
    """Return a step as a line of a trace."""
    text, *about = step.said
    return str(text) % tuple(about)


def _as_it_is(world: World, s: State) -> list[str]:
    look = world.look(s)
    lines = [f"    run {n}: {run.state.value}" for n, run in enumerate(look.runs.values(), 1)]
    for at, attempt in world.attempts(s):
        task = s.tasks[at]
        row = world.notes.row(task)
        kept = "no row" if row is None else f"row {row.state.value}{'' if row.answer is None else ', answered'}"
        marks = f"{' unresolved' if attempt.unresolved else ''}{' superseded' if attempt.superseded else ''}"
        hand = f", hand {task.hand}" if task.hand else ""
        lines.append(f"    {world.name(at)}: {attempt.state.value}{marks}; {kept}{hand}; engine {task.engine}")
    return lines
