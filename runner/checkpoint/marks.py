"""Where a page of a list ended: the next one goes on after it, whatever has been added or changed meanwhile."""

import re
from dataclasses import dataclass
from typing import Final, Self

from runner.checkpoint.records import Event, Run, SkipRange

_RUN_MARK: Final = re.compile(r"(-?[0-9]{1,15})\.([01])\.([A-Za-z0-9-]{1,64})", re.ASCII)
_EVENT_MARK: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})", re.ASCII)


class BadMark(Exception):
    """A text is no mark of such a list."""


@dataclass(frozen=True, slots=True, order=True)
class RunMark:
    """The place of a run or of a skipped range among all: by instant, ranges before runs, by id.

    Attributes:
        at_ms: planned or triggered instant; of a range its last one.
        rank: 0 for a range, 1 for a run.
        id: of the run, or of the range's schedule.
    """

    at_ms: int
    rank: int
    id: str

    @classmethod
    def of(cls, row: Run | SkipRange) -> Self:
        """Return the place of a row."""
        if isinstance(row, SkipRange):
            return cls(row.last_ms, 0, row.schedule_id)
        at_ms = row.scheduled_for_ms if row.scheduled_for_ms is not None else row.triggered_ms
        return cls(row.created_ms if at_ms is None else at_ms, 1, row.run_id)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the mark that a text stands for.

        Raises:
            BadMark: it stands for none.
        """
        found = _RUN_MARK.fullmatch(text)
        if found is None:
            raise BadMark(text)
        return cls(int(found[1]), int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.at_ms}.{self.rank}.{self.id}"

    @property
    def first_run_id(self) -> str:
        """Return what every run id before this place is less than: ids begin with 48 bits of their instant."""
        if self.rank:
            return self.id
        digits = f"{max(self.at_ms, 0):012x}"
        return f"{digits[:8]}-{digits[8:]}"


@dataclass(frozen=True, slots=True)
class EventMark:
    """The place of an event in the trail."""

    revision: int
    ordinal: int

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return the place of an event."""
        return cls(event.revision, event.ordinal)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the mark that a text stands for.

        Raises:
            BadMark: it stands for none.
        """
        found = _EVENT_MARK.fullmatch(text)
        if found is None:
            raise BadMark(text)
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.revision}.{self.ordinal}"
