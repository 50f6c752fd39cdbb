"""What a schedule's policies may say, checked alike wherever they are written: in a file or in a body."""

from typing import Final

from runner.checkpoint.ops import Retry
from runner.checkpoint.pause import LONGEST_PAUSE_MS
from runner.management.bodies import RetryBody

MOST_ATTEMPTS: Final = 2**31 - 1
LARGEST_FACTOR: Final = 100
LONGEST_RETENTION_S: Final = 3_650 * 86_400

_MILLI: Final = 1_000
_SIGNALS: Final = range(-64, 0)
_CODES: Final = range(1, 256)


class BadPolicy(ValueError):
    """A policy that cannot be meant: the path of its key in a schedule's body, and what is wrong there."""

    def __init__(self, keys: tuple[str, ...], words: str) -> None:
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
