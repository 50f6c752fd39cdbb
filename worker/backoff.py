"""How long to wait before the next try."""

from worker.ports import Randomness


class Backoff:
    """Pauses that double from `first_s` to `most_s`, each drawn from the upper half of its range."""

    def __init__(self, randomness: Randomness, *, first_s: float, most_s: float) -> None:
        self._randomness = randomness
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def pause_s(self) -> float:
        """Return the next pause in seconds, and make the one after it longer."""
        pause_s = self._next_s * (0.5 + self._randomness.random() / 2)
        self._next_s = min(self._next_s * 2, self._most_s)
        return pause_s

    def reset(self) -> None:
        """Start again from the shortest pause: the other side answered."""
        self._next_s = self._first_s
