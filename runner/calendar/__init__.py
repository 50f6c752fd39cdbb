"""When a schedule is due: pure functions of a trigger, a time zone and instants that are handed in."""

from runner.calendar.definition import starts_ms, timing_of
from runner.calendar.faults import BadExpression
from runner.calendar.moment import moment_ms
from runner.calendar.planning import Plan, Unrun, plan, skip
from runner.calendar.tally import Tally, tallies
from runner.calendar.timing import (
    Occurrence,
    Timing,
    because,
    check_timing,
    next_occurrence,
    next_run,
    occurrences,
)
from runner.calendar.trigger import check_trigger

__all__ = [
    "BadExpression",
    "Occurrence",
    "Plan",
    "Tally",
    "Timing",
    "Unrun",
    "because",
    "check_timing",
    "check_trigger",
    "moment_ms",
    "next_occurrence",
    "next_run",
    "occurrences",
    "plan",
    "skip",
    "starts_ms",
    "tallies",
    "timing_of",
]
