"""Operations of people on runs and on the register itself, each under its operation key."""

from msgspec import Struct


class Operation(Struct, frozen=True):
    """Who asked for a management change, under which key; the checkpoint keeps its result (WIRE: Idempotency-Key).

    Attributes:
        principal: name of the authenticated caller; keys of two principals never meet.
        key: UUIDv7 text that the client minted.
        digest: lower-case hex sha256 of the request's body; the same key with another digest is refused.
    """

    principal: str
    key: str
    digest: str


class CancelOp(Struct, frozen=True, tag="cancel"):
    """Cancel one run: commits Cancelling before any worker hears of it."""

    operation: Operation
    run_id: str


class AttestOp(Struct, frozen=True, tag="attest"):
    """A named human's statement of quiescence about one attempt.

    Attributes:
        row_revision: the attempt's row revision that the attester read; another one is refused (`row_changed`).
    """

    operation: Operation
    run_id: str
    attempt: int
    attester: str
    statement: str
    evidence: str
    row_revision: int


class AttestedRow(Struct, frozen=True):
    """One attempt that an attestation covers, at the row revision that the attester read."""

    run_id: str
    attempt: int
    row_revision: int


class AttestIncarnationOp(Struct, frozen=True, tag="attest_incarnation"):
    """A named human's statement of quiescence about all that one lost process life left uncertain; all or nothing.

    Attributes:
        attempts: every attempt of that incarnation that can be attested, as the attester read them.
    """

    operation: Operation
    worker: str
    incarnation: str
    attester: str
    statement: str
    evidence: str
    attempts: tuple[AttestedRow, ...]


class SetFrozen(Struct, frozen=True, tag="set_frozen"):
    """Freeze: no materialisation, claims or permits; reports, cancels and attestations go on. Or end that."""

    operation: Operation
    frozen: bool


class Redeliver(Struct, frozen=True, tag="redeliver"):
    """Open a Failed delivery again: one more attempt under the same key, until a new deadline."""

    operation: Operation
    run_id: str
    deadline_ms: int


class Restore(Struct, frozen=True, tag="restore"):
    """Start a new generation: this checkpoint came out of an image, and what happened since is not known."""

    operation: Operation


class AcceptClock(Struct, frozen=True, tag="accept_clock"):
    """Believe the clocks as they stand: a person says that a step of them was meant. Changes no row; it is on the trail."""

    operation: Operation


class ForgetOperations(Struct, frozen=True, tag="forget_operations"):
    """Drop the kept results of operation keys older than the retention (7 days), oldest first, at most `limit`."""

    before_ms: int
    limit: int
