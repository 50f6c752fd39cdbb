"""How far the log may be compacted, decided purely; and the bounds that this package lives within."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cluster.log_mirror import Entry
from cluster.pieces import MAX_PIECE_BYTES


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes that decide when to compact, what to keep, and how fast a snapshot is sent.

    Attributes:
        wal_bytes: a WAL of this size is checkpointed.
        every_entries: so is checkpoint.db after this many applied entries.
        keep_entries: at most this much of what may be compacted is kept, for voters that lag a little.
        keep_bytes: the same in bytes of commands.
        piece_bytes: of a snapshot in one frame.
        window_pieces: on their way to one voter, not acknowledged yet.
        stall_s: a voter that acknowledges nothing for so long is given up, and tried anew after a pause as long, then
            ever longer ones.
    """

    wal_bytes: int = 4 << 20
    every_entries: int = 8192
    keep_entries: int = 8192
    keep_bytes: int = 16 << 20
    piece_bytes: int = MAX_PIECE_BYTES
    window_pieces: int = 4
    stall_s: float = 10.0


DEFAULT_BOUNDS: Final = Bounds()


def start_of_log(entries: Sequence[Entry], limit: int, bounds: Bounds) -> int:
    """Return the index that the log is to start at.

    Args:
        entries: the log as it is retained; its first entry is its start.
        limit: nothing behind this index may go: it is not durable in checkpoint.db, or a snapshot needs it.
        bounds: how much of what may go is kept.
    """
    first = entries[0].index
    kept_bytes = 0
    for index in range(limit, max(first, limit - bounds.keep_entries), -1):
        kept_bytes += len(entries[index - first].command)
        if kept_bytes > bounds.keep_bytes:
            return index
    return max(first, limit - bounds.keep_entries)
