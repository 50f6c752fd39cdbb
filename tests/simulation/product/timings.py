"""Every deadline, so short that a scenario of some seconds crosses them all."""

from dataclasses import dataclass
from typing import Final

from cluster import ports
from runner import settings
from worker import timing


@dataclass(frozen=True)
class Timings:
    """Lengths of time of all three packages.

    Attributes:
        reply_s: how long a worker waits for an answer, beyond the time that a poll may be held back.
    """

    raft: ports.Timing
    owner: settings.Timing
    worker: timing.Timing
    reply_s: float


TIMINGS: Final = Timings(
    raft=ports.Timing(raft_min_s=0.3, raft_max_s=0.6, heartbeat_s=0.09, tick_s=0.05),
    owner=settings.Timing(
        acquire_s=1.0,
        stalled_s=1.0,
        pulse_s=0.5,
        poll_s=0.5,
        repeat_s=0.3,
        claim_s=2.0,
        contact_s=2.5,
        stop_grace_s=0.3,
        stop_deadline_s=1.2,
        propose_s=3.0,
        drain_s=3.0,
        clock_seen_s=2.0,
        clock_step_s=2.0,
        clock_steady_s=1.5,
        operation_kept_s=3600.0,
    ),
    worker=timing.Timing(
        poll_wait_s=0.5,
        poll_pause_s=0.1,
        backoff_first_s=0.05,
        backoff_most_s=0.4,
        denied_repeat_s=0.4,
        grant_expiry_s=1.5,
        drain_s=1.0,
        flush_s=0.5,
        retention_s=3.0,
        prune_every_s=1.0,
    ),
    reply_s=0.8,
)
