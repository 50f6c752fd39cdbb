"""The log in the words that the library reads it with."""

from typing import Final, NoReturn

from pysyncobj.journal import Journal

from cluster.log_mirror import Entry
from cluster.log_store import LogStore
from cluster.outcome import FailStop

Words = tuple[bytes, int, int]  # command, index, term


class JournalFace(Journal):  # type: ignore[misc]  # the library carries no types
    """What PySyncObj may do with the log: read it, append its no-op, note term, vote and commit index."""

    def __init__(self, log: LogStore) -> None:
        """Stand before a log."""
        self._log: Final = log

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append one entry."""
        self._log.append(command, idx, term)

    def __getitem__(self, item: int | slice) -> Words | list[Words]:
        entries = self._log.entries
        return [_words(entry) for entry in entries[item]] if isinstance(item, slice) else _words(entries[item])

    def __len__(self) -> int:
        return len(self._log.entries)

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803 - the library's names
        """Note term and vote."""
        self._log.set_term(term, votedForNodeId)

    def getCurrentTerm(self) -> int:  # noqa: N802 - the library's name
        """Return the term."""
        return self._log.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802 - the library's name
        """Return the vote in the term."""
        return self._log.voted_for

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803 - the library's names
        """Note how far the log is committed."""
        self._log.set_commit(raftCommitIndex)

    def getRaftCommitIndex(self) -> int:  # noqa: N802 - the library's name
        """Return how far the log is committed."""
        return self._log.commit_index

    def clear(self) -> NoReturn:
        """Refuse: nothing of ours lets the library drop entries."""
        raise FailStop("the library tried to clear the log")

    def deleteEntriesFrom(self, entryFrom: int) -> NoReturn:  # noqa: N802, N803 - the library's names
        """Refuse: only our own append handler truncates."""
        raise FailStop(f"the library tried to truncate the log at {entryFrom}")

    def deleteEntriesTo(self, entryTo: int) -> NoReturn:  # noqa: N802, N803 - the library's names
        """Refuse: only `cluster/upkeep.py` compacts, and only what checkpoint.db holds on disk."""
        raise FailStop(f"the library tried to compact the log to {entryTo}")

    def _destroy(self) -> None:
        """Leave the log to its owner."""


def _words(entry: Entry) -> Words:
    return (entry.command, entry.index, entry.term)
