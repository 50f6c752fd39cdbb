"""How much of the log is on its way to one peer: a bound, so that catching up never overflows a link."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from cluster.frames import MAX_BATCH_BYTES, MAX_WINDOW_BYTES, Append
from cluster.log_mirror import Entry
from cluster.log_store import LogStore

MAX_BATCH_ENTRIES: Final = 4096
ENTRY_OVERHEAD_BYTES: Final = 16  # of an entry in a frame, beside its command


class Window:
    """Batches sent to one peer over its current link and not acknowledged yet."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int]] = deque()  # (index of its last entry, size), oldest first
        self._bytes = 0

    def batches(self, log: LogStore, next_index: int) -> Iterator[Append]:
        """Yield, as on their way, the entries from an index on that fit; where none does, one empty heartbeat.

        Where the next entry is compacted away, only the start of the log is held up to the peer: its answer tells
        whether it holds that, and otherwise a snapshot must help.
        """
        if next_index <= log.first_index:
            start = log.entry(log.first_index)
            yield Append(log.commit_index, start.index, start.term, ())
            return
        heartbeat = True
        while True:
            previous = log.entry(next_index - 1)
            batch = self.fit(log.after(previous.index, MAX_BATCH_ENTRIES))
            if batch or heartbeat:
                entries = tuple((entry.term, entry.command) for entry in batch)
                yield Append(log.commit_index, previous.index, previous.term, entries)
            if not batch:
                return
            self.sent(batch)
            next_index, heartbeat = batch[-1].index + 1, False

    def fit(self, waiting: Sequence[Entry]) -> Sequence[Entry]:
        """Return the part of what waits that may be sent now: at least one entry, unless the window is full."""
        if self._bytes >= MAX_WINDOW_BYTES:
            return ()
        size = 0
        for count, entry in enumerate(waiting, start=1):
            size += len(entry.command) + ENTRY_OVERHEAD_BYTES
            if size >= MAX_BATCH_BYTES:
                return waiting[: count if count == 1 or size == MAX_BATCH_BYTES else count - 1]
        return waiting

    def sent(self, batch: Sequence[Entry]) -> None:
        """Note a batch as on its way."""
        if batch:
            size = sum(len(entry.command) + ENTRY_OVERHEAD_BYTES for entry in batch)
            self._batches.append((batch[-1].index, size))
            self._bytes += size

    def acknowledged(self, index: int) -> None:
        """Note that the peer holds everything up to an index."""
        while self._batches and self._batches[0][0] <= index:
            self._bytes -= self._batches.popleft()[1]

    def clear(self) -> None:
        """Forget what is on its way: its link ended, or the peer told of a conflict."""
        self._batches.clear()
        self._bytes = 0
