"""An executor on virtual time: a job runs in one go when the test says so, or never if its process dies before."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class LaterExecutor(Executor):
    """Keeps jobs in order; one runs at a time, when `run_next` is called."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Future[Any], Callable[..., Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.append((future, fn, lambda: fn(*args, **kwargs)))
        return future

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def run_next(self) -> str:
        """Run the oldest job; return the name of its function."""
        future, fn, job = self._jobs.popleft()
        try:
            future.set_result(job())
        except Exception as error:  # noqa: BLE001 - a future carries whatever its job raised
            future.set_exception(error)
        return fn.__name__

    def run_all(self) -> None:
        while self._jobs:
            self.run_next()
