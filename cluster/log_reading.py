"""What raft.db must look like before anything is built on it."""

import sqlite3
from pathlib import Path

from cluster.database import unusable
from cluster.outcome import Unfit

Row = tuple[bytes, int, int]  # command, index, term


def owner(path: Path, db: sqlite3.Connection) -> tuple[str, str]:
    """Return whose file it is: the voter's name and the identity of its disk.

    Raises:
        Unfit: the file cannot be read or says nobody's.
    """
    try:
        row = db.execute("SELECT name, disk_id FROM identity").fetchone()
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if row is None:
        raise Unfit(f"{path}: it does not say whose it is; replace this voter's disk")
    return str(row[0]), str(row[1])


def standing(path: Path, db: sqlite3.Connection) -> tuple[int, str | None, int, int]:
    """Return term, vote, commit index, and how many transactions have changed log, term or vote.

    Raises:
        Unfit: the file cannot be read or holds none.
    """
    try:
        row = db.execute("SELECT term, voted_for, commit_index, syncs FROM standing").fetchone()
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if row is None:
        raise Unfit(f"{path}: it holds no term; replace this voter's disk")
    term, voted_for, commit_index, syncs = row
    return int(term), voted_for, int(commit_index), int(syncs)


def entries(path: Path, db: sqlite3.Connection, term: int, commit_index: int) -> list[Row]:
    """Return the log; its first row is its start.

    Raises:
        Unfit: the file cannot be read, or this is no log of that term and commit index.
    """
    try:
        rows: list[Row] = db.execute("SELECT command, idx, term FROM log ORDER BY idx").fetchall()
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    _, first, previous = rows[0] if rows else (b"", 0, 0)
    if not rows or (first == 1) != (previous == 0):  # only the initial entry has term 0
        raise Unfit(f"{path}: the log has lost its start; replace this voter's disk")
    for position, (_, index, entry_term) in enumerate(rows, start=first):
        if index != position or entry_term < previous:
            raise Unfit(f"{path}: the log is damaged at entry {position}; replace this voter's disk")
        previous = entry_term
    if previous > term or not first <= commit_index < first + len(rows):
        raise Unfit(f"{path}: its term or commit index does not fit its log; replace this voter's disk")
    return rows
