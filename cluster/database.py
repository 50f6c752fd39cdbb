"""How this package opens a SQLite file: WAL, no implicit transactions, durability said by the caller."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from cluster.outcome import Unfit

Durability = Literal["FULL", "NORMAL"]
BUSY_MS = 2_000  # nobody else writes these files; a person with the sqlite3 shell gets this long


def open_writer(path: Path, durability: Durability, *, create: bool = False) -> sqlite3.Connection:
    """Open a file to write.

    Args:
        path: the file; its folder exists.
        durability: FULL = a COMMIT returns when the disk has it; NORMAL = when the next WAL checkpoint has it.
        create: make the file where there is none.

    Raises:
        Unfit: the file cannot be opened, is not a database, or cannot be written.
    """
    try:
        db = sqlite3.connect(_uri(path, "rwc" if create else "rw"), uri=True, isolation_level=None)
        try:
            db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {durability}")
            db.execute("PRAGMA wal_autocheckpoint = 0")  # `cluster/upkeep.py` says when, mostly off the loop
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
        except sqlite3.Error:
            db.close()
            raise
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a file to read what its writer has committed; it cannot change anything.

    Raises:
        Unfit: the file cannot be opened.
    """
    try:
        return sqlite3.connect(_uri(path, "ro"), uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise unusable(path, error) from error


@contextmanager
def unchanged(path: Path) -> Iterator[sqlite3.Connection]:
    """Look at a file without changing a byte of it or its folder, for whoever holds the lock of that folder.

    After a clean end there is no WAL, and the file alone is whole. After a crash an ordinary opening would make an
    index of the WAL beside it, and fold it into the file in the end. Alone and without SQLite's own locks the index
    stays in memory, and a file that is open to read takes nothing in. Only a WAL without one whole transaction may go.

    Raises:
        Unfit: the file cannot be opened.
    """
    wal = path.with_name(f"{path.name}-wal")
    try:
        crashed = wal.exists() and wal.stat().st_size > 0
        how = "ro&vfs=unix-none" if crashed else "ro&immutable=1"
        db = sqlite3.connect(_uri(path, how), uri=True, isolation_level=None)
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from error
    with closing(db):
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        yield db


def unusable(path: Path, error: Exception) -> Unfit:
    """Return the one line for a file that SQLite or the system refuses."""
    return Unfit(f"{path}: {error}; check that it is a file of this voter, readable and writable, on a disk with space")


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"
