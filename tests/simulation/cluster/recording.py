"""Everything that a voter stores, syncs and says, in one total order: what the order of durability is judged by."""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from cluster import durable, wal
from cluster.outcome import Applied

RAFT, RAFT_WAL = "raft.db", "raft.db-wal"
CHECKPOINT, CHECKPOINT_WAL = "checkpoint.db", "checkpoint.db-wal"
INCOMING: Final = "checkpoint.db.incoming"
MARK: Final = "raft.mark"


@dataclass(frozen=True, slots=True)
class LogView:
    """What raft.db holds, read with plain SQL: `terms` are those of the entries from `first` on."""

    term: int
    voted_for: str | None
    commit_index: int
    first: int
    terms: tuple[int, ...]
    installing: tuple[int, int] | None

    @property
    def last(self) -> int:
        return self.first + len(self.terms) - 1

    def term_at(self, index: int) -> int | None:
        """Return the term of an entry, None where there is none."""
        return self.terms[index - self.first] if self.first <= index <= self.last else None


@dataclass(frozen=True, slots=True)
class StateView:
    """What checkpoint.db says of itself."""

    applied: int
    term: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Swapped:
    """Somebody else has made or changed the files that a voter is about to open: what its disk held is void."""

    voter: str


@dataclass(frozen=True, slots=True)
class Started:
    """A voter has opened its files; `power` = as a power loss left them, else as they were."""

    voter: str
    log: LogView
    power: bool


@dataclass(frozen=True, slots=True)
class StateFound:
    """What a voter that starts, or opens it anew, finds in its checkpoint.db."""

    voter: str
    state: StateView


@dataclass(frozen=True, slots=True)
class LogWritten:
    """A transaction of raft.db has ended: kill -9 leaves it, power loss may not."""

    voter: str
    log: LogView


@dataclass(frozen=True, slots=True)
class StateWritten:
    """The same of checkpoint.db."""

    voter: str
    state: StateView


@dataclass(frozen=True, slots=True)
class FileSynced:
    """Whatever was written to a file is on disk; `what` is a database for its WAL too."""

    voter: str
    name: str


@dataclass(frozen=True, slots=True)
class FolderSynced:
    """Whatever names were made, changed or removed is on disk."""

    voter: str


@dataclass(frozen=True, slots=True)
class Removed:
    """A name is gone."""

    voter: str
    name: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A received copy has taken the name of checkpoint.db; `state` is what stands in it."""

    voter: str
    state: StateView


@dataclass(frozen=True, slots=True)
class EntryApplied:
    """The machine has made something of an entry; `digest` is of everything up to it."""

    voter: str
    index: int
    term: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes have left: from here on others act on them."""

    voter: str
    peer: str
    frame: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """A caller has been told that its command is applied."""

    voter: str
    outcome: Applied


Event = (
    Swapped
    | Started
    | StateFound
    | LogWritten
    | StateWritten
    | FileSynced
    | FolderSynced
    | Removed
    | Renamed
    | EntryApplied
    | Sent
    | Answered
)
Listener = Callable[[Event], None]


class History:
    """The total order; keeps the newest events and tells every one of them at once."""

    def __init__(self, keep: int | None = 30) -> None:
        self.events: deque[Event] = deque(maxlen=keep)
        self.listeners: list[Listener] = []
        self.opened: dict[str, object] = {}  # the disk that each voter opened last

    def tell(self, event: Event) -> None:
        self.events.append(event)
        for listener in self.listeners:
            listener(event)


def log_view(db: sqlite3.Connection) -> LogView:
    """Read a raft.db."""
    term, voted_for, commit_index = db.execute("SELECT term, voted_for, commit_index FROM standing").fetchone()
    rows = db.execute("SELECT idx, term FROM log ORDER BY idx").fetchall()
    noted = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'installing'").fetchone()
    installing = db.execute("SELECT idx, term FROM installing").fetchone() if noted else None
    return LogView(term, voted_for, commit_index, rows[0][0], tuple(term for _, term in rows), installing)


def state_view(db: sqlite3.Connection) -> StateView:
    """Read a checkpoint.db."""
    return StateView(*db.execute("SELECT applied_index, applied_term, digest FROM cluster_applied").fetchone())


def state_of(path: Path) -> StateView:
    """Read a checkpoint.db that stands alone, changing nothing."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        return state_view(db)
    finally:
        db.close()


FileAct = Callable[[str, Path], None]  # what was done, to what
WATCHED: dict[Path, FileAct] = {}
"""Who wants to hear of acts in a folder."""


@contextmanager
def files_watched() -> Iterator[None]:
    """Let every sync, removal and renaming of files be told to whoever watches their folder, just after it was done.

    Of a WAL that is copied off the loop it is told before, too: it is synced first of all. Inside of another one, it
    is told once.
    """
    if hasattr(Path.replace, "told"):
        yield
        return

    def tell(what: str, path: Path, folder: Path) -> None:
        if (act := WATCHED.get(folder)) is not None:
            act(what, path)

    def told(act: Callable[..., Any], what: str, target: int = 0, before: str = "") -> Any:
        def done(*paths: Any, **options: Any) -> Any:
            path = paths[target]
            folder = path if what == "folder synced" else path.parent
            if before:
                tell(before, path, folder)
            result = act(*paths, **options)
            tell(what, path, folder)
            return result

        done.told = True
        return done

    with (
        patch.object(durable, "sync_file", told(durable.sync_file, "file synced")),
        patch.object(durable, "sync_folder", told(durable.sync_folder, "folder synced")),
        patch.object(wal, "backfill", told(wal.backfill, "WAL copied", before="copying a WAL")),
        patch.object(Path, "unlink", told(Path.unlink, "removed")),
        patch.object(Path, "replace", told(Path.replace, "renamed", target=1)),
    ):
        yield
