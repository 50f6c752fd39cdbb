"""The next planned instant of every enabled schedule, worked out a few at a time while the owner drives."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import Final

from runner.agenda import Aim, aim_of, is_of
from runner.checkpoint.records import Schedule

# Each costs one look into the calendar, 0.1 ms as a rule and some milliseconds at worst, in which the loop is deaf.
MAX_AIMED: Final = 50
# Schedules planned in one turn, those due longest first; a plan costs as much as an aim.
MAX_DUE: Final = 200
# Outdated entries of the heap are left in it until they come up, or until they are more than those that count.
SPARE: Final = 1_000


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    """An aim's place among all: by its instant, then by its schedule; two of one schedule by their age."""

    next_ms: int
    schedule_id: str
    serial: int
    aim: Aim = field(compare=False)


@dataclass(slots=True, eq=False)
class Aims:
    """What one tenure knows of the calendar; an instant not known yet is looked at a turn later, never missed.

    A turn's work grows with what is due and what is in line, not with how many schedules there are.

    Attributes:
        known: by schedule; good as long as it was reckoned from the row's definition and watermark.
        listed: whether all enabled schedules were put in line, which the first turn of a tenure does.
    """

    known: dict[str, Aim] = field(default_factory=dict)
    listed: bool = False
    _line: OrderedDict[str, None] = field(default_factory=OrderedDict)  # without an aim, in the order they came
    _heap: list[_Entry] = field(default_factory=list)
    _serials: "count[int]" = field(default_factory=count)

    @property
    def complete(self) -> bool:
        """Whether the next instant of every enabled schedule is known."""
        return self.listed and not self._line

    @property
    def next_look_ms(self) -> int | None:
        """The earliest known instant, or None."""
        while self._heap and not self._counts(self._heap[0]):
            heappop(self._heap)
        return self._heap[0].next_ms if self._heap else None

    def line_up(self, schedule_ids: Iterable[str]) -> None:
        """Take in all enabled schedules of the checkpoint: each gets its aim in some turn to come."""
        self._line.update(dict.fromkeys(schedule_ids))
        self.listed = True

    def forget(self, schedule_ids: Iterable[str]) -> None:
        """Drop what is known of schedules that a commit has changed; they get in line again."""
        for schedule_id in schedule_ids:
            self.known.pop(schedule_id, None)
            self._line[schedule_id] = None

    def wanted(self, now_ms: int, is_aside: Callable[[str], bool] = lambda _: False) -> tuple[str, ...]:
        """Return the schedules that this turn has to read: those due longest, and the first in line.

        Args:
            is_aside: whether a schedule's plan is set aside; however many are, they keep no other one waiting.
        """
        in_line = tuple(islice(self._line, MAX_AIMED))
        reached: list[_Entry] = []
        found: list[str] = []
        while len(found) < MAX_DUE and (next_ms := self.next_look_ms) is not None and next_ms <= now_ms:
            reached.append(heappop(self._heap))
            if not is_aside(reached[-1].schedule_id):
                found.append(reached[-1].schedule_id)
        for entry in reached:
            heappush(self._heap, entry)  # it counts until the commit of what is planned of it
        return (*found, *in_line)

    def take(self, rows: Iterable[Schedule]) -> list[tuple[str, str]]:
        """Work out the aims of some rows, `MAX_AIMED` at most; returns the schedules that cannot be planned, and why."""
        faults: list[tuple[str, str]] = []
        reckoned = 0
        for row in rows:
            if row.enabled and not self.knows(row):
                if reckoned == MAX_AIMED:
                    break
                reckoned += 1
                aim = aim_of(row)
                self._know(row.schedule_id, aim)
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

    def _know(self, schedule_id: str, aim: Aim) -> None:
        self.known[schedule_id] = aim
        if aim.next_ms is None:
            return
        heappush(self._heap, _Entry(aim.next_ms, schedule_id, next(self._serials), aim))
        if len(self._heap) > 2 * len(self.known) + SPARE:
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapify(self._heap)

    def _counts(self, entry: _Entry) -> bool:
        return self.known.get(entry.schedule_id) is entry.aim
