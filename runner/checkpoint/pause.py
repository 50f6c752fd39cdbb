"""How long a run that became Pending again waits for its next attempt."""

from collections.abc import Sequence
from typing import Final

from runner.checkpoint.attempt import was_launched
from runner.checkpoint.records import Attempt

RETRY_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000


def pause_ms(attempts: Sequence[Attempt]) -> int:
    """Return how long a run that became Pending again waits: 1 s after a failure, else 1 s growing to 1 min."""
    in_vain = 0
    for attempt in reversed(attempts):
        if was_launched(attempt):
            break
        in_vain += 1
    # The exponent is bounded before it is used: a run that was fenced for an hour has many attempts.
    return min(RETRY_PAUSE_MS << min(max(in_vain - 1, 0), 6), LONGEST_PAUSE_MS)
