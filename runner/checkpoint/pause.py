"""How long a run that became Pending again waits for its next attempt; whole numbers only, as everywhere in apply."""

from collections.abc import Sequence
from typing import Final

from runner.checkpoint.attempt import was_launched
from runner.checkpoint.records import Attempt, Run

IN_VAIN_MS: Final = 1_000
LONGEST_IN_VAIN_MS: Final = 60_000
LONGEST_PAUSE_MS: Final = 7 * 86_400_000
"""No policy waits longer, so that now and a pause are always an instant that can be written down."""

# The least factor over 1 is 1.001, and it makes a millisecond outgrow the longest pause in fewer steps than these.
_MOST_STEPS: Final = 21_000


def pause_ms(run: Run, attempts: Sequence[Attempt]) -> int:
    """Return how long a run waits for its next attempt, milliseconds.

    After its k-th launch that did not succeed (since the last reopen): `backoff * factor ** (k - 1)`, rounded down, at
    most `max`. After attempts that were never launched: 1 s, doubled by each of them in a row, at most 1 min; the
    policy is for failures of the work, and nothing of it ran. Reopened: nothing.

    Args:
        run: whose frozen policy is asked.
        attempts: of the run, oldest first.
    """
    recent = [attempt for attempt in attempts if attempt.n > run.reopened_after]
    if not recent:
        return 0
    in_vain = 0
    for attempt in reversed(recent):
        if was_launched(attempt):
            break
        in_vain += 1
    if in_vain:
        # The exponent is bounded before it is used: a run that was fenced for an hour has many attempts.
        return min(IN_VAIN_MS << min(in_vain - 1, 6), LONGEST_IN_VAIN_MS)
    steps = min(sum(was_launched(attempt) for attempt in recent) - 1, _MOST_STEPS)
    longest_ms = min(run.max_backoff_ms, LONGEST_PAUSE_MS)
    grown_ms: int = run.backoff_ms * run.factor_milli**steps // 1_000**steps
    return min(grown_ms, longest_ms)
