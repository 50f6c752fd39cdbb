"""Operations on attempts: what the owner gives out, what workers say, and what deadlines decide."""

from msgspec import Struct

from worker.protocol import Binding


class ClaimOp(Struct, frozen=True, tag="claim"):
    """Bind the next attempt of a Pending run to a worker's incarnation.

    Attributes:
        authorities: the pools that the worker's credential is for.
        namespaces: the tenants that it is for; None for all.
    """

    run_id: str
    attempt: int
    worker: str
    incarnation: str
    ledger: str
    authorities: tuple[str, ...]
    namespaces: tuple[str, ...] | None = None


class AdmitOp(Struct, frozen=True, tag="admit"):
    """Grant the one permit of an attempt to exactly the stored claim and one reservation.

    Attributes:
        pools: what the credential that asks is for now, whatever it was at the claim; None for all.
        namespaces: likewise.
    """

    worker: str
    binding: Binding
    reservation: str
    pools: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None


class FenceOp(Struct, frozen=True, tag="fence"):
    """State for ever that no permit exists for an attempt.

    Attributes:
        worker: the worker that asks, with its binding's incarnation; None if the owner's deadline passed.
    """

    run_id: str
    attempt: int
    why: str
    worker: str | None = None


class _ReportOp(Struct, frozen=True):
    """What a worker says of an attempt: who says it, of which, out of which ledger and of which process life."""

    worker: str
    run_id: str
    attempt: int
    incarnation: str
    ledger: str


class AcceptOp(_ReportOp, frozen=True, tag="accept"):
    """Record that the engine accepted the work."""

    execution_id: str
    started_ms: int
    evidence: str = ""


class FinishOp(_ReportOp, frozen=True, tag="finish"):
    """Record the engine's definite result."""

    succeeded: bool
    reason: str | None
    exit_code: int | None
    ended_ms: int
    tail: str = ""
    evidence: str = ""


class ConfirmStoppedOp(_ReportOp, frozen=True, tag="confirm_stopped"):
    """Record that, after a stop was noted, nothing of the work is alive."""

    consumed: bool
    exit_code: int | None
    ended_ms: int
    evidence: str = ""


class ForfeitOp(_ReportOp, frozen=True, tag="forfeit"):
    """Record that the same incarnation fenced the attempt in its ledger before consuming it."""

    evidence: str = ""


class LoseOp(Struct, frozen=True, tag="lose"):
    """Record that the outcome of an attempt cannot be confirmed (any more).

    Attributes:
        worker: the worker whose report says so, or None if the owner's deadline says so.
        ledger: of the worker that says so: only the ledger that the attempt is bound to can know.
        why: snake_case: `worker_out_of_contact`, `cannot_tell`, `not_held`, `incarnation_replaced`, `stop_deadline`.
    """

    run_id: str
    attempt: int
    why: str
    worker: str | None = None
    ledger: str | None = None
    evidence: str = ""


class CloseOp(Struct, frozen=True, tag="close"):
    """A Pending run's closing instant has passed (refused unless it has, by the command's `now_ms`)."""

    run_id: str
