"""What has begun must succeed or end the process: never memory ahead of disk, never a retried fsync."""

from types import TracebackType

from cluster.outcome import FailStop


class Unfailing:
    """A block that must not fail: whatever escapes it becomes `FailStop`, with the cause kept.

    Unlike a handler it swallows nothing, so no code after the block ever runs on a half-done step.
    """

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Turn an ordinary exception into FailStop; let a BaseException (FailStop, cancellation) pass."""
        if isinstance(error, Exception):
            raise FailStop(f"{self._doing}: {type(error).__name__}: {error}") from error
