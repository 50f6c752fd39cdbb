"""How much one tick does at most, so that a long replay neither silences the heartbeats nor overfills the disk."""

from collections.abc import Iterator
from typing import Final

from cluster.log_store import Entry, LogStore

MAX_APPLIED_PER_TICK: Final = 256
MAX_APPLIED_BYTES_PER_TICK: Final = 4 << 20  # the entry that reaches it is still applied


def due(log: LogStore, applied: int, last: int) -> Iterator[Entry]:
    """Yield the entries to apply in this tick: those behind `applied`, up to `last`."""
    size = 0
    for entry in log.after(applied, min(MAX_APPLIED_PER_TICK, max(0, last - applied))):
        yield entry
        size += len(entry.command)
        if size >= MAX_APPLIED_BYTES_PER_TICK:
            return
