"""A run as its table sees it, why it may move, and where it stands."""

from dataclasses import dataclass
from typing import Final, Literal

from runner.checkpoint.records import Attempt, RunState


@dataclass(frozen=True, slots=True)
class Case:
    """A run as its table sees it.

    Attributes:
        attempts: oldest first.
        attempts_allowed: launches in all, when failures are confirmed; counted since the last reopen.
        on_unknown: `retry` is for webhooks only: a superseding delivery of the same occurrence.
        closes_ms: end of the catch-up window: the closing instant while nothing of it was ever launched.
        deadline_ms: the closing instant after that: a webhook's delivery deadline, or None for all others.
        cancelled: a cancel was committed.
        given_up: why no further attempt may follow (`missed_window`, `superseded`, `overlap`), or None.
        reopened_after: the attempts up to this launch number came before the last reopen.
        retried_codes: the exit codes after which it is tried again; None for any failure.
    """

    attempts: tuple[Attempt, ...] = ()
    attempts_allowed: int = 1
    on_unknown: Literal["hold", "retry"] = "hold"
    closes_ms: int = 0
    deadline_ms: int | None = None
    cancelled: bool = False
    given_up: str | None = None
    reopened_after: int = 0
    retried_codes: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Its next attempt was claimed."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Settle:
    """One of its attempts became this."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Cancel:
    """An operator cancels it."""


@dataclass(frozen=True, slots=True)
class Close:
    """Its closing instant has passed."""


@dataclass(frozen=True, slots=True)
class Displace:
    """A later occurrence takes its place, or its schedule was changed before it was due."""


@dataclass(frozen=True, slots=True)
class Restore:
    """The checkpoint was restored from an image, and a new generation begins."""

    run_id: str
    pool: str
    digest: str
    generation: int


@dataclass(frozen=True, slots=True)
class Reopen:
    """An operator redelivers a webhook, until a new deadline."""

    deadline_ms: int


Command = Start | Settle | Cancel | Close | Displace | Restore | Reopen
COMMANDS: Final[tuple[type[Command], ...]] = (Start, Settle, Cancel, Close, Displace, Restore, Reopen)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands, and why."""

    state: RunState
    reason: str | None = None
