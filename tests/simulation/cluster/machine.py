"""The smallest state machine that shows every kind of loss: a list of what was applied, in order."""

import sqlite3

from cluster.outcome import FailStop


class Appends:
    """Appends each command to a list; the result is its position. Applied twice = it stands there twice.

    Not total, so that the leader's trial has something to find: a poison always makes it raise, half-way; a rival only
    where it follows a rival.
    """

    version = 1

    def create(self, db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE appended (position INTEGER PRIMARY KEY, op TEXT NOT NULL)")

    def apply(self, db: sqlite3.Connection, command: bytes) -> object:
        (position,) = db.execute("SELECT coalesce(max(position), 0) + 1 FROM appended").fetchone()
        before = db.execute("SELECT op FROM appended WHERE position = ?", (position - 1,)).fetchone()
        db.execute("INSERT INTO appended VALUES (?, ?)", (position, command.decode()))
        if command.startswith(b"poison"):
            raise FailStop("an unknown kind of command")
        if command.startswith(b"rival") and before is not None and before[0].startswith("rival"):
            raise ValueError("two rivals in a row")
        return [position, command.decode()]


def appended(db: sqlite3.Connection) -> list[str]:
    """Return everything applied, in order."""
    return [op for (op,) in db.execute("SELECT op FROM appended ORDER BY position")]
