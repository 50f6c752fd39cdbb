"""How much one listener takes on at once: in all, and from one credential. Beyond that it says when to come back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cluster.problem import Problem

RETRY_S: Final = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What one listener bears.

    Attributes:
        connections: open at once; one more is answered 503 unread.
        requests: being answered at once, held polls included; one more is answered 503.
        requests_of_one: the same of one credential; one more is answered 429.
    """

    connections: int = 4_096
    requests: int = 4_096
    requests_of_one: int = 128


DEFAULT_LIMITS: Final = Limits()


class Crowd:
    """The requests that are being answered."""

    def __init__(self, limits: Limits) -> None:
        """Begin with nobody."""
        self._limits = limits
        self._all = 0
        self._of: dict[str, int] = {}

    @contextmanager
    def admitted(self, name: str) -> Iterator[None]:
        """Count one request of a credential while it is being answered.

        Raises:
            Problem: 429: that credential has too many open; 503: all together have. Nothing was done.
        """
        mine = self._of.get(name, 0)
        if mine >= self._limits.requests_of_one:
            detail = f"{name!r} has {mine} requests open here; let some end first."
            raise Problem(429, "Too Many Requests", detail, "not_done", retry_after_s=RETRY_S)
        if self._all >= self._limits.requests:
            raise too_busy()
        self._all, self._of[name] = self._all + 1, mine + 1
        try:
            yield
        finally:
            self._all -= 1
            self._of[name] -= 1
            if not self._of[name]:
                del self._of[name]


def too_busy() -> Problem:
    """Return the answer to one more than a listener bears."""
    detail = "This listener answers as many requests as it bears; come back a little later."
    return Problem(503, "Service Unavailable", detail, "not_done", retry_after_s=RETRY_S)
