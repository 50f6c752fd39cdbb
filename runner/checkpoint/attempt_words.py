"""What can be asked of one attempt, what is known beside it, and what is answered."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from runner.checkpoint.records import AttemptState, RunState
from worker.protocol import Binding

NOT_CONSUMED: Final = "not_consumed"
"""Reason of an attempt that its own incarnation fenced durably before it consumed the permit."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Bind launch `n` of a run to a worker's incarnation.

    Attributes:
        authorities: the pools that the worker's credential is bound to.
    """

    run_id: str
    n: int
    worker: str
    incarnation: str
    ledger: str
    owner: str
    epoch: int
    generation: int
    pool: str
    digest: str
    authorities: frozenset[str]
    namespace: str
    namespaces: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Admit:
    """Grant the permit to exactly the stored claim and one reservation.

    Attributes:
        asked: the binding that the worker sent.
        stored: the binding as the checkpoint's own rows state it.
        token: fencing token of the permit, if it is granted now.
        pools: what the asking credential is for; None for all.
        namespaces: likewise.
    """

    asked: Binding
    stored: Binding
    reservation: str
    token: int
    pools: frozenset[str] | None = None
    namespaces: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """State for ever that no permit exists; `worker` is None if the owner's deadline asks."""

    why: str
    worker: str | None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ask for the stop of what may run, and fence what cannot have been launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker says of an attempt, from which ledger and of which process life."""

    worker: str
    incarnation: str
    ledger: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept(Report):
    """The engine accepted the work."""

    execution_id: str
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Report):
    """The engine's definite result, observed before any stop was noted."""

    succeeded: bool
    reason: str | None
    exit_code: int | None
    ended_ms: int
    tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmStopped(Report):
    """After a stop was noted: nothing of the work is alive."""

    consumed: bool
    exit_code: int | None
    ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forfeit(Report):
    """The same incarnation fenced it in its ledger before consuming it."""


@dataclass(frozen=True, slots=True)
class Lose:
    """The outcome cannot be confirmed; `worker` is None if the owner's deadline says so."""

    why: str
    worker: str | None
    ledger: str | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Attest:
    """A named human's statement that nothing of it is alive, about the row at one revision."""

    attester: str
    statement: str
    evidence: str
    row_revision: int


@dataclass(frozen=True, slots=True)
class Supersede:
    """A later delivery of the same occurrence takes its place (webhooks, on_unknown = retry)."""


@dataclass(frozen=True, slots=True)
class Restore:
    """The checkpoint was restored from an image: what happened since is not known."""

    run_id: str
    n: int
    pool: str
    digest: str
    generation: int


Command = (
    Claim | Admit | Fence | Cancel | Accept | Finish | ConfirmStopped | Forfeit | Lose | Attest | Supersede | Restore
)
COMMANDS: Final[tuple[type[Command], ...]] = (
    Claim,
    Admit,
    Fence,
    Cancel,
    Accept,
    Finish,
    ConfirmStopped,
    Forfeit,
    Lose,
    Attest,
    Supersede,
    Restore,
)
REPORTS: Final[tuple[type[Command], ...]] = (Accept, Finish, ConfirmStopped, Forfeit, Lose)


@dataclass(frozen=True, slots=True)
class Facts:
    """What an attempt's guards need to know of the rows around it.

    Attributes:
        next_n: the launch number that may come next.
        attempt_open: the run has an attempt that is neither definite, attested nor superseded.
        slot_free_or_own: the run holds its schedule's slot, or nobody does.
        due_ms: instant before which neither claim nor permit is given.
        closing_ms: the run's closing instant, or None.
        retired: a human attested the incarnation quiescent.
        frozen: no claims and no permits are given at all.
        generation: of the checkpoint now; what an attempt of an earlier one is reported to have done is evidence.
    """

    run_state: RunState = RunState.PENDING
    next_n: int = 1
    attempt_open: bool = False
    slot_free_or_own: bool = True
    capacity_free: bool = True
    due_ms: int = 0
    closing_ms: int | None = None
    retired: bool = False
    frozen: bool = False
    generation: int = 0


NOTHING_BESIDE: Final = Facts()
"""For the commands whose guards look at the attempt alone."""


class Reason(Enum):
    """Why an answer is no."""

    ILLEGAL_MOVE = "illegal_move"
    ALREADY_PERMITTED = "already_permitted"
    FENCED = "fenced"
    RUN_NOT_PENDING = "run_not_pending"
    ATTEMPT_DIFFERS = "attempt_differs"
    ATTEMPT_OPEN = "attempt_open"
    NOT_DUE = "not_due"
    WINDOW_PASSED = "window_passed"
    SLOT_HELD = "slot_held"
    POOL_FULL = "pool_full"
    AUTHORITY_DIFFERS = "authority_differs"
    INCARNATION_RETIRED = "incarnation_retired"
    FROZEN = "frozen"
    RUN_CANCELLING = "run_cancelling"
    BINDING_DIFFERS = "binding_differs"
    WORKER_DIFFERS = "worker_differs"
    LEDGER_DIFFERS = "ledger_differs"
    INCARNATION_DIFFERS = "incarnation_differs"
    EXECUTION_DIFFERS = "execution_differs"
    GENERATION_DIFFERS = "generation_differs"
    SUPERSEDED = "superseded"
    STILL_STOPPING = "still_stopping"
    INCOMPLETE = "incomplete"
    ROW_CHANGED = "row_changed"


@dataclass(frozen=True, slots=True)
class Moved:
    """It took effect; `again` if it had before and nothing changes now."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """This reservation has the permit; `again` if it had it already."""

    token: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class PermitExists:
    """No fence: a permit exists, or may exist."""

    state: AttemptState


@dataclass(frozen=True, slots=True)
class Kept:
    """A report that changes no state and is kept beside the row; `why` if it would have been a move otherwise."""

    why: Reason | None = field(default=None)


@dataclass(frozen=True, slots=True)
class Denied:
    """No, and nothing changed."""

    reason: Reason
    state: AttemptState | None


Decision = Moved | Granted | PermitExists | Kept | Denied
