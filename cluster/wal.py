"""WAL checkpoints at our own time: the bulk off the loop, the short rest in it.

SQLite's automatic one would run inside a commit of the loop; only passive ones beside a busy writer would let the
WAL grow for ever, since it starts anew only when nothing in it is left to copy.
"""

import os
import sqlite3
from pathlib import Path

from cluster.database import BUSY_MS

_NOT_NOW = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL})


def size(path: Path) -> int:
    """Return how large the WAL of a file is, in bytes."""
    try:
        return os.stat(f"{path}-wal").st_size  # noqa: PTH116 - hot: looked at in every tick, no Path for each
    except FileNotFoundError:
        return 0


def backfill(path: Path) -> None:
    """Copy what readers allow from the WAL into the file, on a connection of its own. For a thread.

    Never waits for a lock, and no writer or reader waits for it.

    Raises:
        sqlite3.Error: the disk failed; a full disk or a lock of others only postpones.
    """
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    try:
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in _NOT_NOW:
            raise
    finally:
        db.close()


def finish(db: sqlite3.Connection) -> tuple[bool, bool]:
    """Copy the rest of the WAL into the file and empty it, without waiting for readers.

    Args:
        db: the writer, outside of any transaction.

    Returns:
        Whether all committed pages are in the file and synced; whether the WAL is empty now.

    Raises:
        sqlite3.Error: the disk failed; a full disk or a lock of others only postpones.
    """
    db.execute("PRAGMA busy_timeout = 0")
    try:
        busy, frames, copied = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in _NOT_NOW:
            raise
        return False, False
    finally:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    return 0 <= frames == copied, not busy
