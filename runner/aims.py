"""The next planned instant of every enabled schedule, worked out a few at a time while the owner drives."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from runner.agenda import Aim, aim_of, is_of
from runner.checkpoint.records import Schedule

# Each costs one look into the calendar, 0.1 ms as a rule and some milliseconds at worst, in which the loop is deaf.
MAX_AIMED: Final = 50
# Schedules planned in one turn, those due longest first; a plan costs as much as an aim.
MAX_DUE: Final = 200


@dataclass(slots=True, eq=False)
class Aims:
    """What one tenure knows of the calendar; an instant not known yet is looked at a turn later, never missed.

    Attributes:
        known: by schedule; good as long as it was reckoned from the row's definition and watermark.
        listed: whether all enabled schedules were put in line, which the first turn of a tenure does.
    """

    known: dict[str, Aim] = field(default_factory=dict)
    listed: bool = False
    _line: dict[str, None] = field(default_factory=dict)  # schedules without an aim, in the order they came

    @property
    def complete(self) -> bool:
        """Whether the next instant of every enabled schedule is known."""
        return self.listed and not self._line

    @property
    def next_look_ms(self) -> int | None:
        """The earliest known instant, or None."""
        return min((aim.next_ms for aim in self.known.values() if aim.next_ms is not None), default=None)

    def line_up(self, schedule_ids: Iterable[str]) -> None:
        """Take in all enabled schedules of the checkpoint: each gets its aim in some turn to come."""
        self._line.update(dict.fromkeys(schedule_ids))
        self.listed = True

    def forget(self, schedule_ids: Iterable[str]) -> None:
        """Drop what is known of schedules that a commit has changed; they get in line again."""
        for schedule_id in schedule_ids:
            self.known.pop(schedule_id, None)
            self._line[schedule_id] = None

    def wanted(self, now_ms: int) -> tuple[str, ...]:
        """Return the schedules that this turn has to read: those due longest, and the first in line."""
        in_line = tuple(islice(self._line, MAX_AIMED))
        reached = sorted(
            (aim.next_ms, schedule_id)
            for schedule_id, aim in self.known.items()
            if aim.next_ms is not None and aim.next_ms <= now_ms
        )
        return (*(schedule_id for _, schedule_id in reached[:MAX_DUE]), *in_line)

    def take(self, rows: Iterable[Schedule]) -> list[tuple[str, str]]:
        """Work out the aims of some rows, `MAX_AIMED` at most; returns the schedules that cannot be planned, and why."""
        faults: list[tuple[str, str]] = []
        reckoned = 0
        for row in rows:
            if row.enabled and not self.knows(row):
                if reckoned == MAX_AIMED:
                    break
                reckoned += 1
                self.known[row.schedule_id] = aim = aim_of(row)
                if aim.fault is not None:
                    faults.append((row.schedule_id, aim.fault))
            elif not row.enabled:
                self.known.pop(row.schedule_id, None)
            self._line.pop(row.schedule_id, None)
        return faults

    def knows(self, row: Schedule) -> bool:
        """Return whether the aim of exactly this definition and watermark is known."""
        known = self.known.get(row.schedule_id)
        return known is not None and is_of(known, row)
