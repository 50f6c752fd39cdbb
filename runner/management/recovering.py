"""From a human's statement to the op that the checkpoint decides, and what the answer says that it does not do."""

import unicodedata
from types import MappingProxyType
from typing import Final

from cluster.problem import Problem
from runner.checkpoint.ops import AttestedRow, AttestIncarnationOp, AttestOp, Operation
from runner.checkpoint.uncertain import FIRST, Place
from runner.management.bodies import AttestBody, AttestIncarnationBody

ATTESTING_DOES_NOT: Final = (
    "cancel a permit: those of the attested attempts stay on record, and none is granted again",
    "undo an effect of the work, or tell how the work ended",
    "prove that effects outside of Fencepost have stopped: that is the attester's word alone",
)
ATTESTING: Final = MappingProxyType({"attesting_does_not": ATTESTING_DOES_NOT})
"""Part of every answer to an attestation."""

MOST_DIGITS: Final = 10

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def is_one_plain_line(text: str) -> bool:
    """Return whether a text goes on record as one visible line.

    A second line, an escape or a change of writing direction could pass for another record.
    """
    return not any(unicodedata.category(letter) in _UNSEEN for letter in text)


def check_statement(body: AttestBody | AttestIncarnationBody) -> None:
    """Return if the words of an attestation can go on record.

    Raises:
        Problem: 400, naming the part that cannot.
    """
    for key in ("attester", "statement", "evidence"):
        text = getattr(body, key)
        if not text.strip():
            raise _bad(f"{key} is blank; an attestation is a named human's statement with evidence.")
        if not is_one_plain_line(text):
            raise _bad(f"{key} is not one line of plain text; write it without line ends and control characters.")


def place_after(text: str | None) -> Place:
    """Return where a list of what can be attested goes on, as the page before it said.

    Raises:
        Problem: 400.
    """
    if text is None:
        return FIRST
    worker, _, rest = text.partition("/")
    incarnation, _, rest = rest.partition("/")
    run_id, _, n = rest.partition("/")
    if not (run_id and n.isascii() and n.isdigit() and len(n) <= MOST_DIGITS):
        raise _bad(f"after is {text[:100]!r}; give what Fencepost-Next of the page before said.")
    return worker, incarnation, run_id, int(n)


def attest_op(body: AttestBody, operation: Operation) -> AttestOp:
    """Return the op for a checked statement about one attempt."""
    return AttestOp(
        operation=operation,
        run_id=body.run_id,
        attempt=body.attempt,
        attester=body.attester,
        statement=body.statement,
        evidence=body.evidence,
        row_revision=body.row_revision,
    )


def attest_incarnation_op(body: AttestIncarnationBody, operation: Operation) -> AttestIncarnationOp:
    """Return the op for a checked statement about all of one lost incarnation."""
    return AttestIncarnationOp(
        operation=operation,
        worker=body.worker,
        incarnation=body.incarnation,
        attester=body.attester,
        statement=body.statement,
        evidence=body.evidence,
        attempts=tuple(AttestedRow(each.run_id, each.attempt, each.row_revision) for each in body.attempts),
    )


def _bad(detail: str) -> Problem:
    return Problem(400, "Bad Request", detail, "not_done")
