"""What waits for an attempt to come into a state."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False)
class When:
    """Something that a plan wants done when an attempt comes into a state; of any worker, if none is named."""

    state: str
    worker: str
    delay_s: float
    act: Callable[[], object]
