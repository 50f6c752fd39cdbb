"""What clients did to a replicated store and what they were told, as they saw it on one clock."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """It took effect, once, between its call and its answer.

    Attributes:
        result: what the answer said.
        answered: when it came, on the clock of `Operation.called`.
    """

    result: Hashable
    answered: float


@dataclass(frozen=True, slots=True)
class NotDone:
    """It never took effect and never will: the store said so, or it was never sent."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It took effect once, at any time after its call, or it will, or it never does: nobody was told."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of one client.

    Attributes:
        key: which object it was for; objects have nothing to do with each other.
        call: what was asked, in the words of the model.
        called: when, on the one clock of the whole history; taken just before it is sent.
        outcome: what the client was told.
    """

    key: Hashable
    call: Hashable
    called: float
    outcome: Done | NotDone | Unknown
