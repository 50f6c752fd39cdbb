"""What a follower does with a leader's batch, decided purely (Raft, figure 2, AppendEntries 2 to 5).

The library truncates behind `prev_index` even where everything matches, and so drops acknowledged entries.
Here only a real conflict of terms truncates, never at or below the commit index, and only what was matched
is acknowledged.
"""

from dataclasses import dataclass
from typing import Protocol

from cluster.frames import Append, Conflict
from cluster.log_mirror import Entry
from cluster.outcome import FailStop


class Log(Protocol):
    """What there is to look at."""

    @property
    def first_index(self) -> int:
        """Where the log starts; everything up to it is committed."""
        ...

    @property
    def last_index(self) -> int:
        """Index of the last entry."""
        ...

    @property
    def commit_index(self) -> int:
        """Entries up to here are the same on every voter for ever."""
        ...

    def entry(self, index: int) -> Entry:
        """Return the entry at an index from `first_index` to `last_index`."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch follows an entry that both logs hold.

    Attributes:
        truncate_from: where our log contradicts the batch, or None.
        fresh: entries to append after that.
        matched: our log equals the leader's up to here.
        commit_index: how far the batch lets us commit; never beyond `matched`, since our tail behind it is unverified.
    """

    truncate_from: int | None
    fresh: tuple[Entry, ...]
    matched: int
    commit_index: int


def judge(append: Append, log: Log) -> Accepted | Conflict:
    """Decide one batch against a log.

    Raises:
        FailStop: the leader contradicts an entry that is committed here.
    """
    if append.prev_index > log.last_index:
        return Conflict(log.last_index + 1)
    append = _from_start(append, log)
    if append.prev_index < log.first_index:  # all of it is compacted here, hence committed, hence the same
        return Accepted(None, (), append.prev_index + len(append.entries), log.commit_index)
    if log.entry(append.prev_index).term != append.prev_term:
        if append.prev_index <= log.commit_index:
            raise FailStop(f"the leader contradicts committed entry {append.prev_index}")
        return Conflict(_start_of_term(log, append.prev_index))
    held = _held(append, log)
    first_fresh = append.prev_index + 1 + held
    fresh = tuple(
        Entry(command, index, term) for index, (term, command) in enumerate(append.entries[held:], start=first_fresh)
    )
    conflicts = bool(fresh) and first_fresh <= log.last_index
    if conflicts and first_fresh <= log.commit_index:
        raise FailStop(f"the leader contradicts committed entry {first_fresh}")
    matched = append.prev_index + len(append.entries)
    return Accepted(
        truncate_from=first_fresh if conflicts else None,
        fresh=fresh,
        matched=matched,
        commit_index=min(append.commit_index, matched),
    )


def _from_start(append: Append, log: Log) -> Append:
    """Return the batch without what lies before our log's start, unless all of it does."""
    compacted = log.first_index - append.prev_index
    if not 0 < compacted <= len(append.entries):
        return append
    term, _ = append.entries[compacted - 1]
    return Append(append.commit_index, log.first_index, term, append.entries[compacted:])


def _held(append: Append, log: Log) -> int:
    """Return how many entries of the batch our log holds already: same index and term, hence the same entry."""
    for count, (term, _) in enumerate(append.entries):
        index = append.prev_index + 1 + count
        if index > log.last_index or log.entry(index).term != term:
            return count
    return len(append.entries)


def _start_of_term(log: Log, index: int) -> int:
    """Return where the conflicting term begins (after what is committed): the leader skips all of it at once."""
    term = log.entry(index).term
    while index - 1 > log.commit_index and log.entry(index - 1).term == term:
        index -= 1
    return index
