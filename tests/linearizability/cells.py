"""The model of one integer cell: a register with compare-and-set, and a counter, in one."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Read:
    """Results in the value."""


@dataclass(frozen=True, slots=True)
class Write:
    """Sets the value; results in None."""

    value: int


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """Sets the value if it is the expected one; results in whether it was."""

    expected: int
    value: int


@dataclass(frozen=True, slots=True)
class Add:
    """Adds to the value; results in the sum."""

    amount: int


Call = Read | Write | CompareAndSet | Add


class Cell:
    """An integer that is 0 at first."""

    initial = 0

    def step(self, state: int, call: Call) -> tuple[int, object]:
        """Return the value after a call, and its result."""
        match call:
            case Read():
                return state, state
            case Write(value=value):
                return value, None
            case CompareAndSet(expected=expected, value=value):
                return (value, True) if state == expected else (state, False)
            case Add(amount=amount):
                return state + amount, state + amount

    def observes(self, call: Call, result: object) -> bool:
        """Whether it is a read, or was refused."""
        return isinstance(call, Read) or (isinstance(call, CompareAndSet) and result is False)


_KINDS: dict[str, type[Call]] = {kind.__name__: kind for kind in (Read, Write, CompareAndSet, Add)}


def to_words(call: Call) -> list[str | int]:
    """Return a call in a form that JSON can carry."""
    return [type(call).__name__, *astuple(call)]


def from_words(words: Sequence[str | int]) -> Call:
    """Return what `to_words` was given."""
    return _KINDS[str(words[0])](*map(int, words[1:]))
