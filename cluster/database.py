"""How this package opens a SQLite file: WAL, no implicit transactions, durability said by the caller."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
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
    """Look at a file without changing a byte of it or its folder.

    After a clean end there is no WAL, and the file alone is whole. After a crash any ordinary opening would fold the
    WAL into the file, so a copy of both is looked at, elsewhere.

    Raises:
        Unfit: the file cannot be opened or copied.
    """
    wal = path.with_name(f"{path.name}-wal")
    with TemporaryDirectory(prefix="fencepost-") as home, ExitStack() as closing:
        try:
            crashed = wal.exists() and wal.stat().st_size > 0
            uri = _uri(_copy_of(path, Path(home)), "rw") if crashed else _uri(path, "ro&immutable=1")
            db = sqlite3.connect(uri, uri=True, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            raise unusable(path, error) from error
        closing.callback(db.close)
        yield db


def _copy_of(path: Path, home: Path) -> Path:
    for name in (path.name, f"{path.name}-wal"):
        if path.with_name(name).exists():
            shutil.copyfile(path.with_name(name), home / name)
    return home / path.name


def unusable(path: Path, error: Exception) -> Unfit:
    """Return the one line for a file that SQLite or the system refuses."""
    return Unfit(f"{path}: {error}; check that it is a file of this voter, readable and writable, on a disk with space")


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"
