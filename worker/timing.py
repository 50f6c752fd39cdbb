"""The worker's lengths of time, all in seconds."""

from dataclasses import dataclass
from typing import Final

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Every deadline of a worker.

    Attributes:
        poll_wait_s: how long the owner may hold a poll back.
        poll_pause_s: least time between two polls when the first one brought nothing new.
        backoff_first_s: pause after the first message that was not answered.
        backoff_most_s: longest pause between two tries.
        denied_repeat_s: pause before words that the owner denied are said again.
        grant_expiry_s: a grant that comes later than this after the first ask is dropped.
        drain_s: how long a stopping worker waits for running work.
        flush_s: how long it then waits for its last reports to be answered.
        retention_s: how long after its final answer a row may go, if the owner has forgotten its run by then; else it
            is asked about again after as long.
        prune_every_s: how often old rows are looked for.
    """

    poll_wait_s: float = 5.0
    poll_pause_s: float = 0.2
    backoff_first_s: float = 0.1
    backoff_most_s: float = 5.0
    denied_repeat_s: float = 2.0
    grant_expiry_s: float = 60.0
    drain_s: float = 30.0
    flush_s: float = 5.0
    retention_s: float = 30 * DAY_S
    prune_every_s: float = 3_600.0
