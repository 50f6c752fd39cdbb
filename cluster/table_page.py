"""One page of one table of the checkpoint, in key order."""

import base64
import binascii
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

MAX_ROWS: Final = 1_000
MAX_PAGE_BYTES: Final = 1 << 20
MAX_CURSOR_CHARS: Final = 2_048

_KEY: Final = msgspec.msgpack.Decoder(list[int | str | tuple[bytes]])  # a union cannot tell bytes from text

Value = int | str | bytes | float | None


class BadCursor(ValueError):
    """A cursor that no page of this table ended with."""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in key order.

    Attributes:
        columns: names, in the order of the values in each row.
        rows: at most as many as asked for; fewer when they grow past `MAX_PAGE_BYTES`.
        next: cursor of the page after this one, or None at the end.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    next: str | None


def read_page(db: sqlite3.Connection, table: str, *, after: str | None, limit: int) -> Page:
    """Read the rows that follow a cursor; key values are kept whole, so rows that come and go never shift a page.

    Args:
        db: the checkpoint, between two commands.
        table: name of an existing table.
        after: `next` of the page before, or None for the first.
        limit: 1 to `MAX_ROWS`.

    Raises:
        BadCursor: `after` is not a cursor of this table.
    """
    key = _key_columns(db, table)
    where = ""
    values: tuple[Value, ...] = ()
    if after is not None:
        values = _decode_cursor(after, len(key))
        where = f"WHERE ({', '.join(key)}) > ({', '.join('?' * len(key))})"
    # Only names of existing tables and columns are put into the text; values are bound.
    sql = f"SELECT {', '.join(key)}, * FROM {_quoted(table)} {where} ORDER BY {', '.join(key)} LIMIT ?"  # noqa: S608 - see above
    cursor = db.execute(sql, (*values, limit + 1))
    columns = tuple(name for name, *_ in cursor.description[len(key) :])
    rows: list[tuple[Value, ...]] = []
    last: Sequence[Value] = ()
    size = 0
    for row in cursor:
        if len(rows) == limit or (rows and size > MAX_PAGE_BYTES):
            return Page(columns, tuple(rows), _encode_cursor(last))
        last, shown = row[: len(key)], row[len(key) :]
        rows.append(shown)
        size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in shown)
    return Page(columns, tuple(rows), None)


def _key_columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """Return the primary key of a WITHOUT ROWID table, whose columns are never null, or else the rowid."""
    (without_rowid,) = db.execute(
        "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", (table,)
    ).fetchone()
    if not without_rowid:
        return ("rowid",)
    found = db.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,))
    return tuple(_quoted(name) for (name,) in found)


def _encode_cursor(key: Sequence[Value]) -> str:
    packed = msgspec.msgpack.encode([(value,) if isinstance(value, bytes) else value for value in key])
    return base64.urlsafe_b64encode(packed).decode("ascii")


def _decode_cursor(cursor: str, length: int) -> tuple[Value, ...]:
    if len(cursor) > MAX_CURSOR_CHARS:
        raise BadCursor("longer than any cursor")
    try:
        packed = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        key = _KEY.decode(packed)
    except (UnicodeError, binascii.Error, msgspec.MsgspecError) as error:
        raise BadCursor("not a cursor") from error
    if len(key) != length or any(isinstance(value, int) and not _is_stored(value) for value in key):
        raise BadCursor("a cursor of another table")
    return tuple(value[0] if isinstance(value, tuple) else value for value in key)


def _is_stored(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63  # what SQLite can hold


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
