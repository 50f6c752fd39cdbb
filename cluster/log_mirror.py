"""What is retained of the log, in memory, and what is read of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster import regress
from cluster.outcome import FailStop
from cluster.regress import Floor


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log; the command begins with its kind (`frames.REGULAR`) or is `frames.NO_OP`."""

    command: bytes
    index: int
    term: int


class LogMirror:
    """The reading side of `cluster/log_store.py`: all of it is in memory, so none of it blocks.

    Attributes:
        entries: oldest first, without a gap; the first one is the start of the log.
        floor: what the file has lost and no leader has made good yet; until then its voter has no say.
    """

    entries: list[Entry]
    floor: Floor | None
    _claims_unsynced: bool

    @property
    def first_index(self) -> int:
        """Index of the start of the log: committed, applied, and all before it compacted away."""
        return self.entries[0].index

    @property
    def last_index(self) -> int:
        """Index of the last entry."""
        return self.entries[-1].index

    @property
    def last_term(self) -> int:
        """Term of the last entry."""
        return self.entries[-1].term

    @property
    def claims_unsynced(self) -> bool:
        """Whether the term or the vote in memory is not on disk yet: then nothing at all may leave."""
        return self._claims_unsynced

    @property
    def entitled(self) -> bool:
        """Whether its voter has a say in elections, as far as this file has lost nothing."""
        return self.floor is None

    @property
    def trouble(self) -> str | None:
        """What this file has lost, in words for a person; None for nothing."""
        return None if self.floor is None else regress.trouble(self.floor)

    def entry(self, index: int) -> Entry:
        """Return the entry at an index from `first_index` to `last_index`."""
        return self.entries[self._place(index)]

    def after(self, index: int, limit: int) -> Sequence[Entry]:
        """Return the entries behind an index that the log holds, at most `limit`."""
        place = self._place(index) + 1
        return self.entries[place : place + limit]

    def _place(self, index: int) -> int:
        place = index - self.first_index
        if place < 0:  # a negative place would silently count from the end
            raise FailStop(f"entry {index} is asked for, the log starts at {self.first_index}")
        return place
