"""What an engine says of work: that it took it, and how it ended. Instants in milliseconds since the epoch, UTC."""

from typing import Literal

from msgspec import Struct


class Receipt(Struct, frozen=True):
    """The engine accepted the work.

    Attributes:
        execution_id: the engine's own name for it, at most 256 characters; for a command it holds boot id, pid and
            start time, so that a later life of the worker can tell whether this very process is alive.
        started_ms: this host's wall clock just before the engine was asked.
    """

    execution_id: str
    started_ms: int


class Outcome(Struct, frozen=True):
    """The definite end of work: nothing of it is alive.

    Attributes:
        reason: None on success; `exit`, `timeout`, or `refused` if the engine never started it.
        exit_code: exit status of a command, -N if signal N ended it, None if it never started.
        tail: the end of the output of work that did not succeed, at most 1 KiB of UTF-8.
        evidence: what else there is to say, in words.
    """

    succeeded: bool
    reason: Literal["exit", "timeout", "refused"] | None
    exit_code: int | None
    ended_ms: int
    tail: str = ""
    evidence: str = ""
