"""Every transition is on record with who, from where to where, why, and on what evidence (DESIGN 4)."""

from runner.checkpoint import ops, queries
from runner.checkpoint.commit import MAX_EVIDENCE_CHARS
from tests.unit.checkpoint.book import Book, owned_book


def trail(book: Book, run_id: str, op: str) -> list[tuple[int | None, str | None, str | None, str | None]]:
    found = queries.events(book.db, run_id=run_id, limit=100)
    return [(e.attempt, e.to_state, e.why, e.evidence) for e in reversed(found) if e.op == op]


def test_evidence_stands_on_the_attempts_line_and_the_runs_line_follows_in_the_same_revision() -> None:
    book = owned_book()
    run_id = book.admitted()
    book.lose(run_id, evidence="the last poll heard does not list it")
    assert trail(book, run_id, "lose") == [
        (1, "Unknown", "worker_out_of_contact", "the last poll heard does not list it"),
        (None, "Unknown", "worker_out_of_contact", None),
    ]
    newest, before = queries.events(book.db, run_id=run_id, limit=2)
    assert newest.revision == before.revision


def test_what_a_worker_observed_and_said_is_evidence() -> None:
    book = owned_book()
    run_id = book.admitted()
    book.report(ops.AcceptOp, run_id, execution_id="boot/1/2", started_ms=1_500, evidence="kept")
    book.finish(run_id, succeeded=False, ended_ms=1_900, evidence="nothing of it is alive")
    assert trail(book, run_id, "accept")[0][3] == "execution boot/1/2, started 1970-01-01T00:00:01.500Z; kept"
    assert trail(book, run_id, "finish")[0] == (
        *(1, "Failed", "exit", "exit code 1, ended 1970-01-01T00:00:01.900Z; nothing of it is alive"),
    )


def test_evidence_of_an_event_is_bounded() -> None:
    book = owned_book()
    run_id = book.admitted()
    book.lose(run_id, evidence="x" * 50_000)
    (line, _) = trail(book, run_id, "lose")
    assert line[3] == "x" * MAX_EVIDENCE_CHARS
