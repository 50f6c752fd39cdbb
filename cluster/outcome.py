"""What can become of a proposal: exactly one of three kinds, never mixed (DESIGN 3.1)."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Applied:
    """The command is committed on a majority and applied here.

    Attributes:
        index: position in the log, from 2 on (1 is the library's initial entry).
        term: Raft term of the entry.
        result: what `StateMachine.apply` returned for it.
    """

    index: int
    term: int
    result: object


class Why(Enum):
    """Why a proposal was definitely not applied: it was never appended to any log."""

    NOT_LEADER = "not_leader"
    QUEUE_FULL = "queue_full"
    TOO_LARGE = "too_large"
    STORE_FULL = "store_full"
    FAILED_TRIAL = "failed_trial"  # applying it would have stopped every voter; repeating it does not help
    NO_REPLACEMENT = "no_replacement"  # a voter's disk cannot be replaced as asked, or not now
    NOT_YET = "not_yet"  # not every voter's program can apply a command of its version
    EXPIRED = "expired"  # its deadline passed while it waited to be appended
    CLOSED = "closed"


class NotApplied(Exception):
    """The command was appended nowhere and never will be by this call; repeating it is safe."""

    def __init__(self, why: Why, detail: str = "") -> None:
        """Keep the reason as a value, so that callers never parse text."""
        super().__init__(f"{why.value}: {detail}" if detail else why.value)
        self.why = why


class OutcomeUnknown(Exception):
    """Leadership or this process ended with the command pending: it may be applied now, later, or never."""


class FailStop(BaseException):
    """An invariant is broken or storage failed: the process must end and answer nothing more.

    A BaseException, so that no `except Exception` (ours or the library's) can swallow it.
    """


class Unfit(Exception):
    """This data directory or configuration cannot be used as it is; nothing on disk was changed.

    The text is one line for a person: what, where, and what to do.
    """
