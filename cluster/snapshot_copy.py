"""A copy of checkpoint.db: made by the leader, checked by the receiver, both in a thread on connections of their own."""

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster import checkpoint_store, durable
from cluster.database import open_reader
from cluster.ports import Identity

OUTGOING: Final = "checkpoint.db.outgoing"
INCOMING: Final = "checkpoint.db.incoming"
_BLOCK_BYTES: Final = 1 << 20


class Unsound(Exception):
    """What came in is not a copy that this voter may install; its text is for the log."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A whole copy on disk.

    Attributes:
        path: the file, no WAL beside it.
        index: the last entry applied in it.
        term: of that entry.
        total: its size in bytes.
        digest: sha256 of its bytes.
    """

    path: Path
    index: int
    term: int
    total: int
    digest: bytes


def make_copy(source: Path, target: Path) -> Copy:
    """Copy the committed state of a live database, in one read transaction; its writer goes on meanwhile.

    Blocks: for as long as reading and writing the whole file takes.

    Raises:
        sqlite3.Error, OSError: the copy could not be written (a full disk); the source is unharmed.
    """
    target.unlink(missing_ok=True)
    with closing(open_reader(source)) as live, closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # it is sent and thrown away, never opened as a checkpoint here
        live.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # everything in one file
        index, term = copy.execute("SELECT applied_index, applied_term FROM cluster_applied").fetchone()
    return Copy(target, int(index), int(term), target.stat().st_size, _sha256(target))


def check_copy(copy: Copy, identity: Identity, supported_version: int) -> None:
    """Check a received copy as a whole and make its bytes durable.

    Blocks: for as long as reading and syncing the whole file takes.

    Raises:
        Unsound: it is not what was announced, or not for this voter.
        sqlite3.Error, OSError: it cannot be read or synced.
    """
    if copy.path.stat().st_size != copy.total or _sha256(copy.path) != copy.digest:
        raise Unsound("its bytes are not those that were announced")
    with closing(open_reader(copy.path)) as db:
        row = db.execute(
            "SELECT format, cluster_version, cluster_id, generation, applied_index, applied_term FROM cluster_applied"
        ).fetchone()
    if row is None or row[0] != checkpoint_store.FORMAT:
        raise Unsound("it was written by another version of this program")
    if row[1] > supported_version:
        raise Unsound(f"the cluster has gone on to version {row[1]}, this program knows {supported_version}")
    if row[2:4] != (identity.cluster_id, identity.generation):
        raise Unsound("it is of another cluster or restore generation")
    if row[4:] != (copy.index, copy.term):
        raise Unsound(f"it ends at entry {row[4]}, announced was {copy.index}")
    durable.sync_file(copy.path)


def _sha256(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.digest()
