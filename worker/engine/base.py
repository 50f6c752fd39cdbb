"""The contract between a worker and what runs the work."""

from dataclasses import dataclass
from typing import Protocol

from worker.capability import LaunchCapability
from worker.outcome import Outcome, Receipt
from worker.protocol import Claim


class Refused(Exception):
    """The engine did not start the work, for certain; the text says why, for a person."""


class SubmissionUnknown(Exception):
    """The engine may or may not have started the work, or cannot observe what it started."""


class OutcomeUnknown(Exception):
    """The end of accepted work cannot be proved: something of it is or may be alive; the text names what is seen."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What the ledger knows of work that an earlier life of the worker submitted, or may have submitted.

    Attributes:
        execution_id: the engine's name for it, None if its receipt was never kept.
    """

    run_id: str
    attempt: int
    execution_id: str | None


class Work(Protocol):
    """Work that an engine accepted, from here to its end."""

    @property
    def receipt(self) -> Receipt:
        """What to keep durably before the work is observed."""
        ...

    def stop(self) -> None:
        """Ask that the work be stopped; `observe` returns when it is. Idempotent, never blocks."""
        ...

    async def observe(self) -> Outcome:
        """Wait until nothing of the work is alive, and return how it ended. Called once.

        Blocks: as long as the work lives and nothing ends it. Cancelling it leaves the work running.

        Raises:
            OutcomeUnknown: what was to be ended could not be, or is out of sight. An outcome is a proof; this is none.
        """
        ...


class Engine(Protocol):
    """Runs work."""

    async def submit(self, capability: LaunchCapability, claim: Claim) -> Work:
        """Spend the capability and start the work of a claim.

        Raises:
            Refused: nothing was started.
            SubmissionUnknown: something may have been started.
            CapabilityMisuse: the capability does not cover this attempt, or no more; nothing was started.
        """
        ...

    def reattach(self, trace: Trace) -> Work | None:
        """Take up the observation of accepted work of an earlier life; None if this engine cannot address it.

        Never blocks, changes nothing, starts nothing: work that turns out not to be there ends as `OutcomeUnknown`.
        Called once per attempt and life, and only where the ledger holds the engine's receipt.
        """
        ...

    def prove(self, trace: Trace) -> str:
        """Return in words what this host proves about work of an earlier life. Changes nothing."""
        ...
