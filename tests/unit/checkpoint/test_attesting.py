"""One statement about all that a lost process life left (DESIGN 4 and 7): all of it, as it was read, or nothing."""

from typing import Any

import pytest

from runner.checkpoint import ops, queries, uncertain
from runner.checkpoint.records import AttemptState
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint import pairs
from tests.unit.checkpoint.book import Book, owned_book, spec


def listed(book: Book, worker: str = "w1", incarnation: str = "a") -> tuple[ops.AttestedRow, ...]:
    rows = uncertain.attestable(book.db, worker, incarnation, 100)
    return tuple(ops.AttestedRow(each.run_id, each.n, each.revision) for each in rows)


def attest_all(book: Book, **changes: Any) -> OpResult:
    values: dict[str, Any] = {
        "operation": book.operation(principal="rita"),
        "worker": "w1",
        "incarnation": "a",
        "attester": "Rita",
        "statement": "the host burnt",
        "evidence": "ticket 7",
        "attempts": listed(book),
    }
    return book.do(ops.AttestIncarnationOp(**{**values, **changes}))


def lost_host() -> tuple[Book, str, str]:
    """Return a book in which w1/a left one Unknown attempt and one Cancelling that stays unresolved."""
    book = owned_book(spec(), spec("other"))
    unknown = book.admitted(1_000)
    (cancelling,) = book.materialise(1_000, name="other").detail["runs"]
    book.claim(cancelling)
    book.admit(cancelling)
    book.cancel(cancelling)
    book.lose(unknown)
    book.lose(cancelling)
    return book, unknown, cancelling


def test_all_of_a_lost_incarnation_is_quiesced_by_one_statement_and_told_run_by_run() -> None:
    book, unknown, cancelling = lost_host()
    done = attest_all(book)
    assert done.kind == "done"
    assert (done.detail["worker"], done.detail["incarnation"]) == ("w1", "a")
    assert {
        (each["run_id"], each["attempt"], each["state"], each["run_state"]) for each in done.detail["attested"]
    } == {
        (unknown, 1, "Quiesced", "Quiesced"),
        (cancelling, 1, "Quiesced", "Quiesced"),
    }
    for run_id in (unknown, cancelling):
        assert book.states(run_id) == ("Quiesced", "Quiesced")
        assert not book.run(run_id).holds_slot
        (event,) = [e for e in queries.events(book.db, run_id=run_id, limit=9) if e.op == "attest" and e.attempt]
        assert (event.actor, event.why) == ("rita", "attested by Rita, with all of incarnation a")
        assert event.evidence == "the host burnt (ticket 7)"
    assert "incarnation:w1/a" in done.changed


def test_an_attested_incarnation_that_returns_gets_nothing_and_is_still_answered() -> None:
    book, unknown, _ = lost_host()
    book.now_ms = 2_000
    waiting = book.do(ops.Trigger(book.operation("t2"), "demo", "tick")).detail["run_id"]
    assert book.run(waiting).reason == "overlap"  # an Unknown run keeps its slot
    assert attest_all(book).kind == "done"
    later = book.a_run(3_000)
    assert book.claim(later).reason == "incarnation_retired"
    assert book.claim(later, worker="w1/b").kind == "claimed"
    assert book.finish(unknown).kind == "evidence"
    assert book.states(unknown) == ("Quiesced", "Quiesced")


def test_a_claim_of_an_attested_incarnation_gets_no_permit() -> None:
    book = owned_book(spec(), spec("other"))
    unknown = book.admitted(1_000)
    (claimed,) = book.materialise(1_000, name="other").detail["runs"]
    book.claim(claimed)
    book.lose(unknown)
    assert attest_all(book).kind == "done"
    assert book.admit(claimed).reason == "incarnation_retired"
    assert book.states(claimed) == ("Active", "Claimed")


@pytest.mark.parametrize("wrong", ["one is missing", "one too many", "another incarnation's", "named twice", "none"])
def test_another_list_than_there_is_changes_nothing_and_is_told_the_right_one(wrong: str) -> None:
    book, unknown, cancelling = lost_host()
    right = listed(book)
    rows = {
        "one is missing": right[1:],
        "one too many": (*right, ops.AttestedRow("no-such-run", 1, 1)),
        "another incarnation's": (*right[1:], ops.AttestedRow(right[0].run_id, 2, right[0].row_revision)),
        "named twice": (*right, right[0]),
        "none": (),
    }[wrong]
    refused = attest_all(book, attempts=rows)
    assert (refused.kind, refused.reason, refused.changed) == ("refused", "list_changed", ())
    told = {(row["run_id"], row["attempt"], row["row_revision"]) for row in refused.detail["attempts"]}
    assert told == {(row.run_id, row.attempt, row.row_revision) for row in right}
    assert book.states(unknown) == ("Unknown", "Unknown")
    assert book.states(cancelling) == ("Cancelling", "Cancelling")
    assert not queries.is_retired(book.db, "w1", "a")


def test_a_row_that_changed_since_it_was_read_spoils_the_whole_statement() -> None:
    book, unknown, cancelling = lost_host()
    read = listed(book)
    book.report(ops.AcceptOp, unknown, execution_id="e1", started_ms=1_500)
    refused = attest_all(book, attempts=read)
    assert (refused.reason, [row["run_id"] for row in refused.detail["attempts"]]) == ("row_changed", [unknown])
    assert book.states(cancelling) == ("Cancelling", "Cancelling")
    assert attest_all(book).kind == "done"


def test_an_incarnation_is_not_lost_while_anything_of_it_is_awaited() -> None:
    book = owned_book(spec(), spec("other"))
    unknown = book.admitted(1_000)
    (running,) = book.materialise(1_000, name="other").detail["runs"]
    book.claim(running)
    book.admit(running)
    book.lose(unknown)
    refused = attest_all(book)
    assert (refused.reason, refused.detail) == ("still_open", {"open": 1})
    book.cancel(running)
    assert attest_all(book).reason == "still_open"  # its stop may still be confirmed
    book.lose(running)
    assert attest_all(book).kind == "done"


def test_superseded_attempts_are_part_of_what_was_left() -> None:
    book = owned_book(spec(on_unknown="retry", delivery_deadline_s=86_400))
    run_id = book.admitted(1_000)
    book.lose(run_id)
    assert book.attempt(run_id).superseded
    book.now_ms = 10_000
    book.claim(run_id, 2)
    book.admit(run_id, 2, reservation="x2")
    book.lose(run_id, 2)
    assert [row.attempt for row in listed(book)] == [1, 2]
    done = attest_all(book)
    assert [each["attempt"] for each in done.detail["attested"]] == [1, 2]
    assert book.states(run_id) == ("Pending", "Quiesced", "Quiesced")  # a delivery goes on under another incarnation


def test_nothing_is_left_of_an_incarnation_that_nobody_knows_and_of_none() -> None:
    book, _, _ = lost_host()
    for whose in ({"incarnation": "z"}, {"worker": "w2"}, {"worker": "", "incarnation": ""}):
        assert attest_all(book, **whose, attempts=()).reason == "nothing_to_attest"


def test_a_statement_needs_words_and_has_bounds() -> None:
    book, _, _ = lost_host()
    assert attest_all(book, statement=" ").reason == "incomplete"
    assert attest_all(book, evidence="x" * 5_000).reason == "attestation_too_long"
    many = tuple(ops.AttestedRow("r", n, 1) for n in range(1, 1_002))
    assert attest_all(book, attempts=many).reason == "too_many_attempts"


def test_the_same_key_hears_the_same_answer() -> None:
    book, _, _ = lost_host()
    rows, operation = listed(book), book.operation("k", principal="rita")
    first = attest_all(book, operation=operation, attempts=rows)
    again = attest_all(book, operation=operation, attempts=rows)
    assert (again.again, again.detail, again.changed) == (True, first.detail, ())


def test_what_sql_lists_is_what_the_table_lets_attest() -> None:
    book = owned_book(spec(), spec("other"))
    for at, attempt in enumerate(
        [*(pairs.in_state(state) for state in AttemptState), pairs.unresolved(), pairs.superseded()]
    ):
        run_id = f"r{at}"
        columns = [row[1] for row in book.db.execute("PRAGMA table_info(attempts)")]
        values = {**{name: getattr(attempt, name) for name in columns}, "run_id": run_id, "state": attempt.state.value}
        book.db.execute(f"INSERT INTO attempts VALUES ({', '.join('?' * len(columns))})", [values[c] for c in columns])
    may = {(each.state, each.unresolved, each.superseded) for each in uncertain.each_attestable(book.db)}
    assert may == {
        (AttemptState.UNKNOWN, False, False),
        (AttemptState.UNKNOWN, False, True),
        (AttemptState.CANCELLING, True, False),
    }
    plan = book.db.execute(
        "EXPLAIN QUERY PLAN SELECT * FROM attempts WHERE (state = 'Unknown' OR (state = 'Cancelling' AND unresolved = 1))"
        " AND worker = 'w1' AND incarnation = 'a' ORDER BY run_id, n"
    ).fetchall()
    assert "attempts_attestable" in str(plan)
