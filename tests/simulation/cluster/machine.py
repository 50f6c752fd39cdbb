"""The smallest state machine that shows every kind of loss: a list of what was applied, in order."""

import sqlite3


class Appends:
    """Appends each command to a list; the result is its position. Applied twice = it stands there twice."""

    version = 1

    def create(self, db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE appended (position INTEGER PRIMARY KEY, op TEXT NOT NULL)")

    def apply(self, db: sqlite3.Connection, command: bytes) -> object:
        (position,) = db.execute("SELECT coalesce(max(position), 0) + 1 FROM appended").fetchone()
        db.execute("INSERT INTO appended VALUES (?, ?)", (position, command.decode()))
        return [position, command.decode()]


def appended(db: sqlite3.Connection) -> list[str]:
    """Return everything applied, in order."""
    return [op for (op,) in db.execute("SELECT op FROM appended ORDER BY position")]
