"""A compare-and-set state machine: cells with a version each, changed only by who names the version it has."""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

ABSENT: Final = 0  # the version that a cell has before it is first set

_CREATE: Final = "INSERT INTO cell VALUES (?, 1, ?) ON CONFLICT DO NOTHING"
_CHANGE: Final = "UPDATE cell SET version = version + 1, value = ? WHERE key = ? AND version = ?"


class CompareAndSet(msgspec.Struct, frozen=True, array_like=True):
    """Set one cell, if its version is as expected.

    Attributes:
        expected: `ABSENT` to create the cell.
    """

    key: bytes
    expected: int
    value: bytes


_packed: Final = msgspec.msgpack.Encoder()
_commands: Final = msgspec.msgpack.Decoder(tuple[CompareAndSet, ...])


def encode(ops: Sequence[CompareAndSet]) -> bytes:
    """Return one command that tries each op by itself, in order."""
    return _packed.encode(ops)


class Cells:
    """The cells as a replicated table; a command's result has one byte an op: 1 = set, 0 = another version stood there."""

    version = 1

    def create(self, db: sqlite3.Connection) -> None:
        """Create the one table."""
        db.execute(
            "CREATE TABLE cell (key BLOB PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID"
        )

    def apply(self, db: sqlite3.Connection, command: bytes) -> object:
        """Apply one command; what is none changes nothing and results in no bytes."""
        try:
            ops = _commands.decode(command)
        except msgspec.MsgspecError:
            return b""
        return bytes(_set(db, op) for op in ops)


def _set(db: sqlite3.Connection, op: CompareAndSet) -> bool:
    if op.expected == ABSENT:
        return db.execute(_CREATE, (op.key, op.value)).rowcount == 1
    return db.execute(_CHANGE, (op.value, op.key, op.expected)).rowcount == 1
