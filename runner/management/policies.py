"""What a schedule's policies may say, checked alike wherever they are written: in a file or in a body."""

from typing import Final

from runner.checkpoint.limits import MAX_JITTER_MS, MAX_WAITING, MAX_WINDOW_S
from runner.checkpoint.ops import CatchUp, Overlap, Retry
from runner.checkpoint.pause import LONGEST_PAUSE_MS
from runner.management.bodies import CatchUpBody, RetryBody

MOST_ATTEMPTS: Final = 2**31 - 1
LARGEST_FACTOR: Final = 100
LONGEST_RETENTION_S: Final = 3_650 * 86_400
MOST_RUNS: Final = 2**31 - 1
DEFAULT_CONCURRENT: Final = 10
DEFAULT_QUEUED: Final = 100

_MILLI: Final = 1_000
_LONGEST_SHOWN: Final = 10**30
_SIGNALS: Final = range(-64, 0)
_CODES: Final = range(1, 256)


class BadPolicy(ValueError):
    """A part of a schedule that cannot be meant: the path of its key in the schedule's body, and what is wrong there."""

    def __init__(self, keys: tuple[str | int, ...], words: str) -> None:
        """Keep both."""
        super().__init__(words)
        self.keys = keys


def retry_of(body: RetryBody) -> Retry:
    """Return a retry policy as the checkpoint keeps it: whole numbers only.

    Raises:
        BadPolicy: a value is out of range, or two do not go together.
    """
    if body.attempts > MOST_ATTEMPTS:
        raise BadPolicy(("retry", "attempts"), f"{body.attempts} is too large; {MOST_ATTEMPTS} is the most")
    if not 1 <= body.factor <= LARGEST_FACTOR:
        raise BadPolicy(("retry", "factor"), f"{body.factor} is out of range; 1 to {LARGEST_FACTOR} is right")
    factor_milli = round(body.factor * _MILLI)
    if factor_milli / _MILLI != body.factor:
        raise BadPolicy(("retry", "factor"), f"{body.factor} has more than three decimals")
    if body.max_ms > LONGEST_PAUSE_MS:
        raise BadPolicy(
            ("retry", "max_ms"), f"it is longer than {LONGEST_PAUSE_MS // 86_400_000} days, the longest pause"
        )
    if body.backoff_ms > body.max_ms:
        raise BadPolicy(
            ("retry", "backoff_ms"), "the first pause is longer than max, the longest one; raise max or lower backoff"
        )
    return Retry(body.attempts, body.backoff_ms, factor_milli, body.max_ms, _codes(body.on_exit_codes))


def retention_of(retention_s: int) -> int:
    """Return for how long ended runs are kept, seconds.

    Raises:
        BadPolicy: it is out of range.
    """
    if not 1 <= retention_s <= LONGEST_RETENTION_S:
        words = f"{retention_s} s is out of range; 1 s to {LONGEST_RETENTION_S // 86_400} d is right"
        raise BadPolicy(("retention_s",), words)
    return retention_s


def catch_up_of(body: CatchUpBody) -> CatchUp:
    """Return a catch-up policy.

    Raises:
        BadPolicy: a value is out of range.
    """
    if not 1 <= body.window_s <= MAX_WINDOW_S:
        words = f"{body.window_s} s is out of range; 1 s to {MAX_WINDOW_S // 86_400} d is right"
        raise BadPolicy(("catch_up", "window_s"), words)
    _within(("catch_up", "limit"), body.limit, MAX_WAITING)
    return CatchUp(body.window_s, body.policy, body.limit)


def jitter_of(jitter_ms: int) -> int:
    """Return by how much a start may be delayed, milliseconds.

    Raises:
        BadPolicy: it is out of range.
    """
    if not 0 <= jitter_ms <= MAX_JITTER_MS:
        raise BadPolicy(("jitter_ms",), f"{jitter_ms} ms is out of range; 0 s to 24 h is right")
    return jitter_ms


def max_runs_of(max_runs: int | None) -> int | None:
    """Return how many planned occurrences become runs in all; None for no limit.

    Raises:
        BadPolicy: it is out of range.
    """
    if max_runs is not None:
        _within(("max_runs",), max_runs, MOST_RUNS)
    return max_runs


def max_concurrent_of(overlap: Overlap, max_concurrent: int | None) -> int | None:
    """Return how many runs of a schedule may be open at once; None for any overlap policy but `allow`.

    Raises:
        BadPolicy: it is out of range, or goes with another policy.
    """
    if overlap != "allow":
        _absent("max_concurrent", max_concurrent, "allow", overlap)
        return None
    if max_concurrent is None:
        return DEFAULT_CONCURRENT
    _within(("max_concurrent",), max_concurrent, MAX_WAITING)
    return max_concurrent


def queue_limit_of(overlap: Overlap, queue_limit: int | None) -> int:
    """Return how many runs may wait in line; the default for any overlap policy but `queue_all`, where it counts.

    Raises:
        BadPolicy: it is out of range, or goes with another policy.
    """
    if overlap != "queue_all":
        _absent("queue_limit", queue_limit, "queue_all", overlap)
    if queue_limit is None:
        return DEFAULT_QUEUED
    _within(("queue_limit",), queue_limit, MAX_WAITING)
    return queue_limit


def _within(keys: tuple[str, ...], value: int, most: int) -> None:
    if not 1 <= value <= most:
        shown = value if abs(value) < _LONGEST_SHOWN else "a number of so many digits"
        raise BadPolicy(keys, f"{shown} is out of range; 1 to {most} is right")


def _absent(key: str, value: int | None, goes_with: Overlap, overlap: Overlap) -> None:
    if value is not None:
        words = f'{value} goes with overlap = "{goes_with}" only, and it is "{overlap}"; leave it out or change overlap'
        raise BadPolicy((key,), words)


def _codes(given: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the codes in order and once each: a change of their order is none of the policy."""
    if given is None:
        return None
    for code in given:
        if code not in _CODES and code not in _SIGNALS:
            raise BadPolicy(
                ("retry", "on_exit_codes"),
                f"{code} is no exit code of a failure; 1 to 255, or -N for signal N, is right",
            )
    return tuple(sorted(set(given)))
