import sqlite3

import pytest

from bench.cells import ABSENT, Cells, CompareAndSet, encode


@pytest.fixture
def db() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    Cells().create(db)
    return db


def test_a_cell_is_created_once_and_changed_only_at_its_version(db: sqlite3.Connection) -> None:
    def apply(*ops: CompareAndSet) -> object:
        return Cells().apply(db, encode(ops))

    assert apply(CompareAndSet(b"a", ABSENT, b"1")) == b"\x01"
    assert apply(CompareAndSet(b"a", ABSENT, b"2"), CompareAndSet(b"b", ABSENT, b"3")) == b"\x00\x01"
    assert apply(CompareAndSet(b"a", 1, b"4")) == b"\x01"
    assert apply(CompareAndSet(b"a", 1, b"5"), CompareAndSet(b"c", 1, b"6")) == b"\x00\x00"
    assert db.execute("SELECT * FROM cell").fetchall() == [(b"a", 2, b"4"), (b"b", 1, b"3")]


@pytest.mark.parametrize("command", [b"", b"\xc1", b"\x91\x01", encode([CompareAndSet(b"a", ABSENT, b"1")]) + b"x"])
def test_what_is_no_command_changes_nothing(db: sqlite3.Connection, command: bytes) -> None:
    assert Cells().apply(db, command) == b""
    assert db.execute("SELECT * FROM cell").fetchall() == []
