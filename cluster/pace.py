"""How much one tick does at most, and what a leader need not say in a message of its own.

A long replay must neither silence the heartbeats nor overfill the disk.
"""

from collections.abc import Iterator
from typing import Final

from cluster.log_mirror import Entry
from cluster.log_store import LogStore

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


class News:
    """What a leader has to tell everybody: entries at once; a commit index alone a moment later.

    A client that was answered often proposes again at once. The commit index then travels with those entries, instead
    of costing each follower a tick just before they come in.
    """

    def __init__(self, patience_s: float) -> None:
        """Begin with everything untold; `patience_s` is how long a commit index may wait for company."""
        self._patience_s = patience_s
        self._told = (0, 0)
        self._waiting_since_s: float | None = None

    def forget(self) -> None:
        """Tell everything anew: a peer needs other entries."""
        self._told = (0, 0)

    def told(self, last_index: int, commit_index: int) -> None:
        """Note what went out to everybody."""
        self._told, self._waiting_since_s = (last_index, commit_index), None

    def due(self, last_index: int, commit_index: int, now_s: float) -> bool:
        """Whether there is something to tell now; asked once a tick."""
        if self._told == (last_index, commit_index):
            return False
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        return self._told[0] != last_index or now_s - self._waiting_since_s >= self._patience_s
