"""The next occurrence of a trigger alone, with its reading on the schedule's clock."""

from dataclasses import dataclass

from runner.calendar import Timing, next_occurrence
from runner.calendar.local_clock import local_text
from runner.calendar.zones import zone
from runner.checkpoint.ops import TriggerSpec


@dataclass(frozen=True)
class Planned:
    at_ms: int
    local: str
    rule: str | None


def next_after(trigger: TriggerSpec, timezone: str, anchor_ms: int, after_ms: int) -> Planned | None:
    """Return the first planned instant strictly after one."""
    found = next_occurrence(Timing(trigger, timezone, anchor_ms), after_ms)
    return None if found is None else Planned(found.at_ms, local_text(found.at_ms, zone(timezone)), found.rule)
