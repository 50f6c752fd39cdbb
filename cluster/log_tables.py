"""The tables of raft.db, and how a voter's first ones are made."""

import sqlite3
from pathlib import Path
from typing import Final

from cluster import side_mark
from cluster.database import open_writer, unusable
from cluster.frames import NO_OP
from cluster.ports import Identity

FORMAT: Final = 2
FILE_NAME: Final = "raft.db"

_SCHEMA: Final = """
CREATE TABLE log (idx INTEGER PRIMARY KEY, term INTEGER NOT NULL, command BLOB NOT NULL);
CREATE TABLE standing (
  one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER NOT NULL, voted_for TEXT, commit_index INTEGER NOT NULL,
  syncs INTEGER NOT NULL);
CREATE TABLE installing (one INTEGER PRIMARY KEY CHECK (one = 1), idx INTEGER NOT NULL, term INTEGER NOT NULL);
CREATE TABLE identity (
  one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, cluster_id TEXT NOT NULL,
  generation INTEGER NOT NULL, name TEXT NOT NULL, disk_id TEXT NOT NULL);
CREATE TABLE member (name TEXT PRIMARY KEY, disk_id TEXT NOT NULL) WITHOUT ROWID;
"""


def create(path: Path, identity: Identity) -> None:
    """Write a voter's file at genesis: its identity, term 0, and the library's initial entry; before it, its side mark.

    Raises:
        Unfit: the file cannot be written.
        OSError: the side mark cannot be written.
    """
    side_mark.create(path.with_name(side_mark.FILE_NAME), identity.disk_id)
    db = open_writer(path, "FULL", create=True)
    try:
        db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}")
        db.execute("INSERT INTO log VALUES (1, 0, ?)", (NO_OP,))
        db.execute("INSERT INTO standing VALUES (1, 0, NULL, 1, 0)")
        who = (FORMAT, identity.cluster_id, identity.generation, identity.name, identity.disk_id)
        db.execute("INSERT INTO identity VALUES (1, ?, ?, ?, ?, ?)", who)
        db.executemany("INSERT INTO member VALUES (?, ?)", sorted(identity.members.items()))
        db.execute("COMMIT")
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    finally:
        db.close()
