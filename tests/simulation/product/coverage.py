"""Which pairs of the two transition tables a simulation met, seen at the pure functions that decide them."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from runner.checkpoint import attempt, attempt_words, run

Pair = tuple[str, str]


class Coverage:
    """Counts pairs of (state, command).

    Attributes:
        on: whether what is decided now counts: an entry is applied for the first time.
    """

    def __init__(self) -> None:
        self.on = False
        self.attempts: Counter[Pair] = Counter()
        self.runs: Counter[Pair] = Counter()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Look at every step of both tables meanwhile."""
        with (
            patch.object(attempt, "step", self._seen(attempt.step, self.attempts, _attempt_state)),
            patch.object(run, "step", self._seen(run.step, self.runs, _run_state)),
        ):
            yield

    def _seen(self, step: Callable[..., Any], pairs: Counter[Pair], state: Callable[[Any], str]) -> Callable[..., Any]:
        def stepped(record: Any, command: Any, *args: Any, **options: Any) -> Any:
            if self.on:
                pairs[state(record), type(command).__name__] += 1
            return step(record, command, *args, **options)

        return stepped


def _attempt_state(record: Any) -> str:
    return "-" if record is None else record.state.value


def _run_state(record: Any) -> str:
    return run.conclude(record).state.value


def tables() -> tuple[set[Pair], set[Pair]]:
    """Return the pairs that the two tables have rows for."""
    attempts = {("-" if state is None else state.value, command.__name__) for state, command in attempt.MOVES}
    return attempts, {(state.value, command.__name__) for state, command in run.MOVES}


def every_pair_of_attempts() -> set[Pair]:
    """Return every (state, command), those that are refused included."""
    states = ("-", *(state.value for state in attempt.AttemptState))
    return {(state, command.__name__) for state in states for command in attempt_words.COMMANDS}
