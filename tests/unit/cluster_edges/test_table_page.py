"""Pages of a table: every row once, in key order, whatever the key is made of."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import table_page
from cluster.table_page import BadCursor, Page, Value, read_page


def _all_pages(db: sqlite3.Connection, table: str, limit: int) -> list[Page]:
    pages = [read_page(db, table, after=None, limit=limit)]
    while (after := pages[-1].next) is not None:
        pages.append(read_page(db, table, after=after, limit=limit))
    return pages


KEYS = st.lists(
    st.tuples(st.text(max_size=5), st.binary(max_size=5), st.integers(-(1 << 63), (1 << 63) - 1)), unique=True
)


@given(KEYS, st.integers(1, 5))
def test_every_row_of_a_composite_key_comes_once_in_order(keys: list[tuple[str, bytes, int]], limit: int) -> None:
    keys = [key for key in keys if "\x00" not in key[0] and key[0].isprintable()]
    db = sqlite3.connect(":memory:")
    db.execute('CREATE TABLE "odd ""name" (c TEXT, v TEXT, a BLOB, "b b" INT, PRIMARY KEY (c, a, "b b")) WITHOUT ROWID')
    db.executemany('INSERT INTO "odd ""name" VALUES (?, ?, ?, ?)', [(c, "v", a, b) for c, a, b in keys])
    pages = _all_pages(db, 'odd "name', limit)
    db.close()
    rows: list[tuple[Value, ...]] = [row for page in pages for row in page.rows]
    assert rows == [(c, "v", a, b) for c, a, b in sorted(keys, key=lambda key: (key[0].encode(), key[1], key[2]))]
    assert all(len(page.rows) == limit for page in pages[:-1])
    assert pages[0].columns == ("c", "v", "a", "b b")


@pytest.fixture
def db() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    made.execute("CREATE TABLE plain (name TEXT PRIMARY KEY, body BLOB)")
    made.executemany("INSERT INTO plain VALUES (?, ?)", [(None, b""), ("b", b"2"), ("a", None)])
    return made


def test_a_table_with_rowids_goes_by_them_since_its_key_may_be_null(db: sqlite3.Connection) -> None:
    assert [page.rows for page in _all_pages(db, "plain", 2)] == [((None, b""), ("b", b"2")), (("a", None),)]


def test_rows_that_go_do_not_shift_the_next_page(db: sqlite3.Connection) -> None:
    first = read_page(db, "plain", after=None, limit=2)
    db.execute("DELETE FROM plain WHERE rowid <= 2")
    assert read_page(db, "plain", after=first.next, limit=2).rows == (("a", None),)


def test_a_full_page_at_the_end_says_that_it_is_the_end(db: sqlite3.Connection) -> None:
    assert read_page(db, "plain", after=None, limit=3).next is None


def test_large_rows_make_short_pages(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_page, "MAX_PAGE_BYTES", 10)
    db.execute("UPDATE plain SET body = zeroblob(100)")
    assert [len(page.rows) for page in _all_pages(db, "plain", 1000)] == [1, 1, 1]


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "kQE=x", "kgEC", "gA==", "kaA=\n", "kc//////////8=", "wA==", "A" * 4000]
)
def test_what_is_no_cursor_of_this_table_is_refused(db: sqlite3.Connection, cursor: str) -> None:
    with pytest.raises(BadCursor):
        read_page(db, "plain", after=cursor, limit=1)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(cursor: str) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE plain (name TEXT PRIMARY KEY)")
    try:
        page = read_page(db, "plain", after=cursor, limit=1)
    except BadCursor:
        return
    finally:
        db.close()
    assert page.rows == ()
