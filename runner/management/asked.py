"""What a request asks for: something to read, or an op to submit."""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from runner.checkpoint.ops import Op, Operation

T = TypeVar("T")
DrawId = Callable[[], str]
Steps: TypeAlias = Generator[None, None, T]
"""Work in short steps that need no checkpoint any more: whoever drives it lets everything else run in between."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list.

    Attributes:
        rows: the forms, perhaps worked out only as they are taken.
        next: what to ask for to get the next page; None if this is the last one.
        at_once: how many rows are worked out before everything else has a turn.
    """

    rows: Iterable[object]
    next: str | None
    at_once: int = 20  # a row may cost some milliseconds (a rare date)


@dataclass(frozen=True, slots=True)
class Read:
    """Ask what is so; the query returns the form to answer with, or raises a Problem.

    The rows of a `Page`, and a form that takes steps, may be worked out after the query.
    """

    query: Callable[[sqlite3.Connection], object]


@dataclass(frozen=True, slots=True)
class Change:
    """Ask for an op; built only where it is submitted, from the operation and a source of fresh ids.

    Attributes:
        says: what the answer to a change that was done says, whatever was done.
    """

    build: Callable[[Operation, DrawId], Op]
    says: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Ask for an op that the owner works out from what the checkpoint holds.

    Attributes:
        query: returns the steps to the change, or to a further query; all of them may raise a Problem.
        again: asked for under a key whose result is on record, which is what will be answered.
    """

    query: Callable[[sqlite3.Connection], Steps[Change] | Steps[Read]]
    again: Change


@dataclass(frozen=True, slots=True)
class Replacement:
    """Ask for a voter's disk to be replaced: by the one named, or by the one that is linked."""

    voter: str
    disk_id: str | None


Asked = Read | Change | Weighed | Replacement
