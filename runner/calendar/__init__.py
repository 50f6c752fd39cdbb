"""When a schedule is due: pure functions of a trigger, a time zone and instants that are handed in."""

from runner.calendar.expression import BadExpression
from runner.calendar.moment import moment_ms
from runner.calendar.planning import Plan, Unrun, plan, skip
from runner.calendar.trigger import Planned, check_trigger, next_after

__all__ = ["BadExpression", "Plan", "Planned", "Unrun", "check_trigger", "moment_ms", "next_after", "plan", "skip"]
