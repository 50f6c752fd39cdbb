"""Every length of time that the owner keeps, in seconds (DESIGN section 4: Deadlines)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """The owner's deadlines; the values in force show in `status`.

    Attributes:
        acquire_s: a leader that has not acquired the checkpoint for so long steps down.
        stalled_s: an owner whose loop is stuck in one turn for so long steps down; also one that takes no turn for so
            long after a pulse.
        propose_s: a command that was not appended within this is not done; an appended one is of unknown outcome.
        pulse_s: the loop looks at the clock at least this often.
        poll_s: the longest that a worker's poll is held back.
        repeat_s: the longest that a poll is held back while the worker has claims or stops to act on.
        claim_s: a claim without a permit is fenced so long after the claim, the last ask or the takeover.
        contact_s: a worker silent for so long is lost; counted only while the loop turned and could commit.
        stop_grace_s: what the worker gives the work between SIGTERM and SIGKILL.
        stop_deadline_s: past the grace, a stop that is still not confirmed is unresolved.
        drain_s: a stopping owner that no voter could follow goes on for so long while work is observed to its end.
        clock_seen_s: a voter's clock counts if it was seen within this.
        clock_step_s: a larger step of the median stops materialisation.
        clock_steady_s: the clocks must have agreed for so long before materialisation goes on.
        operation_kept_s: results of operation keys are kept for so long.
    """

    acquire_s: float = 2.0
    stalled_s: float = 1.0
    propose_s: float = 5.0
    pulse_s: float = 1.0
    poll_s: float = 5.0
    repeat_s: float = 1.0
    claim_s: float = 15.0
    contact_s: float = 30.0
    stop_grace_s: float = 10.0
    stop_deadline_s: float = 30.0
    drain_s: float = 30.0
    clock_seen_s: float = 2.0
    clock_step_s: float = 5.0
    clock_steady_s: float = 10.0
    operation_kept_s: float = 7 * 86_400.0
