"""What the checker must know of an object."""

from collections.abc import Hashable
from typing import Any, Protocol


class Model(Protocol):
    """One object, used by one call at a time.

    Attributes:
        initial: its state at first.
    """

    initial: Hashable

    def step(self, state: Any, call: Any) -> tuple[Any, object]:
        """Return the state after a call, and its result; total and deterministic, over hashable values."""
        ...

    def observes(self, call: Any, result: object) -> bool:
        """Whether a call with this result leaves every state as it is, as a read does; False where in doubt."""
        ...
