"""The table of checkpoint.db in which the disks stand that entries of the log have named; snapshots carry it.

The same on every voter at equal index: a disk of the genesis stands in it only once an entry has told of it.
"""

import sqlite3
from typing import Final

from cluster.configuration import GENESIS, Change, Roll, Seat, genesis_roll
from cluster.ports import Identity

SCHEMA: Final = """
CREATE TABLE cluster_seat (
  name TEXT NOT NULL, disk_id TEXT NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (name, disk_id)) WITHOUT ROWID
"""


def read_roll(db: sqlite3.Connection, identity: Identity) -> Roll:
    """Return every disk that this voter knows of, by its own genesis or by an applied entry."""
    rows = db.execute("SELECT name, disk_id, since FROM cluster_seat ORDER BY since, name")
    return genesis_roll(identity).naming(((name, Seat(since, disk_id)) for name, disk_id, since in rows), again=True)


def note_change(db: sqlite3.Connection, index: int, change: Change) -> None:
    """Note what the entry at an index says, inside the caller's transaction."""
    before = [(name, disk_id, GENESIS) for name, disk_id in sorted(change.before.items())]
    db.executemany("INSERT OR IGNORE INTO cluster_seat VALUES (?, ?, ?)", before)
    db.execute("INSERT OR REPLACE INTO cluster_seat VALUES (?, ?, ?)", (change.name, change.disk_id, index))
