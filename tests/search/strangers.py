"""What no worker and no human of ours would say, but the checkpoint must refuse in every state all the same."""

from collections.abc import Iterator

from msgspec.structs import replace

from runner.checkpoint import ops
from runner.checkpoint.admitting import binding_of
from runner.checkpoint.records import Attempt, AttemptState
from tests.search.book import RECOVERY, Book
from worker.protocol import Binding

ASKABLE = (AttemptState.CLAIMED, AttemptState.ADMITTED)
WATCHED = (AttemptState.ADMITTED, AttemptState.ACCEPTED, AttemptState.CANCELLING)
ATTESTABLE = (AttemptState.UNKNOWN, AttemptState.CANCELLING)


def let_in(book: Book, number: int) -> Iterator[str]:
    """Yield what the checkpoint grants or records in a state although nobody may have it."""
    look = book.look(number)
    for run_id, attempts in look.attempts.items():
        for attempt in attempts:
            if attempt.state in ASKABLE:
                binding = binding_of(look.head, look.runs[run_id], attempt)
                for why, op in _asks(attempt, binding):
                    if _answer(book, number, op) == "granted":
                        yield f"invariant 1: a permit of {attempt.state.value} is granted {why}"
            if attempt.state in WATCHED and _answer(book, number, _cannot_tell(attempt)) == "recorded":
                yield f"rule: {attempt.state.value} is lost on the word of another ledger"
            if attempt.state in ATTESTABLE and _answer(book, number, _attest(attempt, attempt.revision + 1)) == "done":
                yield "rule: attested at another revision than the row's"
            stopping = attempt.state is AttemptState.CANCELLING and not attempt.unresolved
            if stopping and _answer(book, number, _attest(attempt, attempt.revision)) == "done":
                yield "rule: attested while its stop may still be confirmed"


def _asks(attempt: Attempt, binding: Binding) -> Iterator[tuple[str, ops.AdmitOp]]:
    mine = attempt.reservation or "x"
    yield "to another incarnation", ops.AdmitOp(attempt.worker, replace(binding, incarnation="other"), mine)
    yield "to another worker", ops.AdmitOp("other", binding, mine)
    yield "for another generation", ops.AdmitOp(attempt.worker, replace(binding, generation=0), mine)
    yield "for other work", ops.AdmitOp(attempt.worker, replace(binding, digest="other"), mine)
    if attempt.token is not None:
        yield "to another reservation", ops.AdmitOp(attempt.worker, binding, "other")


def _attest(attempt: Attempt, row_revision: int) -> ops.AttestOp:
    return ops.AttestOp(RECOVERY, attempt.run_id, attempt.n, "Rita", "gone", "ticket 7", row_revision)


def _cannot_tell(attempt: Attempt) -> ops.LoseOp:
    return ops.LoseOp(attempt.run_id, attempt.n, "cannot_tell", worker=attempt.worker, ledger="other")


def _answer(book: Book, number: int, op: ops.Op) -> str:
    return book.apply(number, book.numbered.number(op)).result.kind
