"""Is a history linearizable: could its operations have happened one at a time, each between its call and its answer?

The search goes from answer to answer in the order of time. Before each it lets open calls happen, one after the other,
until the answered one has; it never comes twice to where it was. A call that only observes happens as soon as its
result fits, since it disturbs nobody. One of unknown outcome may happen at any time after its call, or never.
Sources: Wing and Gong, "Testing and verifying concurrent objects", JPDC 1993; Lowe, "Testing for linearizability",
CCPE 2017 (just-in-time linearization, memoisation); Porcupine (each key by itself).
"""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from tests.linearizability.history import Done, NotDone, Operation, Unknown
from tests.linearizability.model import Model

MOST_PLACES: Final = 2_000_000


class Undecided(Exception):
    """The search was ended before it was through: ask for shorter runs, or for fewer clients of one key."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An answer that nothing explains, whatever is assumed of the calls before it.

    Attributes:
        operation: the first one, in the order of answers, that cannot be explained.
        states: what the object can have held when the answer before this one came.
        around: operations on the same key that ended shortly before it or were still open, in the order of calls.
    """

    operation: Operation
    states: tuple[object, ...]
    around: tuple[Operation, ...]

    def __str__(self) -> str:
        around = "".join(f"\n    {operation}" for operation in self.around)
        return f"no order explains {self.operation}; the object can have held one of {self.states}; around it:{around}"


def check(history: Iterable[Operation], model: Model, most_places: int = MOST_PLACES) -> list[Violation]:
    """Return what contradicts the model, at most one finding for each key; nothing if the history is linearizable.

    Args:
        history: in any order.
        model: what every key is.
        most_places: how far to search in each key.

    Raises:
        Undecided: the search of one key was longer.
    """
    by_key: dict[Hashable, list[Operation]] = defaultdict(list)
    for operation in history:
        if not isinstance(operation.outcome, NotDone):  # must have left no trace: whoever saw one is not explained
            by_key[operation.key].append(operation)
    found = (_Search(operations, model, most_places).violation() for operations in by_key.values())
    return [violation for violation in found if violation is not None]


@dataclass(frozen=True, slots=True)
class _Moment:
    """One answer, and what was open when it came; a bit is an open call's for as long as it is open.

    Attributes:
        observes: whether the answered call only observes.
        changing: the open calls that may change the state, by number of bit.
        observing: the open calls that only observe, by bit.
        fresh: the bits of those that were not open yet at the answer before.
        unknown: how many calls of unknown outcome had been made.
    """

    operation: Operation
    bit: int
    observes: bool
    changing: dict[int, Operation]
    observing: dict[int, Operation]
    fresh: int
    unknown: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the search is: before which answer, and what it assumes to have happened.

    Attributes:
        ahead: the bits of open calls that may change the state and have happened.
        owed: the bits of open calls that only observe and have not happened yet.
        used: a bit for each call of unknown outcome that has happened.
    """

    moment: int
    state: Hashable
    ahead: int
    owed: int
    used: int


class _Visited:
    """Places where the search was, and thereby those that offer no more than one of them.

    Of two that are equal otherwise, the one that owes less and has used less is enough: what only observes may happen
    once more without harm, and what has an unknown outcome may happen later or never.
    """

    def __init__(self, most: int) -> None:
        self._seen: dict[tuple[int, Hashable, int], list[tuple[int, int]]] = defaultdict(list)
        self._left = most

    def enter(self, place: _Place) -> bool:
        """Return whether it is a new one."""
        others = self._seen[place.moment, place.state, place.ahead]
        if any(owed & place.owed == owed and used & place.used == used for owed, used in others):
            return False
        if not self._left:
            raise Undecided
        self._left -= 1
        others.append((place.owed, place.used))
        return True


class _Search:
    """The search in one key."""

    def __init__(self, operations: Sequence[Operation], model: Model, most: int) -> None:
        self._operations, self._model = operations, model
        self._moments = _moments(operations, model)
        self._unknown: dict[Hashable, list[int]] = defaultdict(list)
        for number, operation in enumerate(_unknown(operations)):
            self._unknown[operation.call].append(number)
        self._visited = _Visited(most)
        self._todo: list[tuple[int, int, int, _Place]] = []
        self._pushed = 0

    def violation(self) -> Violation | None:
        if not self._moments:
            return None
        furthest, states = 0, {self._model.initial}
        self._push(self._place(0, self._model.initial, ahead=0, owed=self._moments[0].fresh, used=0))
        while self._todo:
            *_, place = heapq.heappop(self._todo)
            if not self._visited.enter(place):
                continue
            if place.moment > furthest:
                furthest, states = place.moment, set()
            if place.moment == furthest:
                states.add(place.state)
            moment = self._moments[place.moment]
            if not (place.owed if moment.observes else ~place.ahead) & moment.bit:
                if place.moment + 1 == len(self._moments):
                    return None
                self._push(self._next(place, moment))
            else:
                for after in self._after(place, moment):
                    self._push(after)
        culprit = self._moments[furthest].operation
        return Violation(culprit, tuple(states), _around(self._operations, culprit))

    def _push(self, place: _Place) -> None:
        """Keep a place for later: the furthest come first, of those the ones that have used least, then the newest."""
        self._pushed += 1
        heapq.heappush(self._todo, (-place.moment, place.used.bit_count(), -self._pushed, place))

    def _next(self, place: _Place, moment: _Moment) -> _Place:
        """Return the place before the next answer; what was answered is forgotten."""
        owed = place.owed | self._moments[place.moment + 1].fresh
        return self._place(place.moment + 1, place.state, place.ahead & ~moment.bit, owed, place.used)

    def _after(self, place: _Place, moment: _Moment) -> Iterator[_Place]:
        """Yield where one more call leads, the more likely ones last."""
        for call, numbers in self._unknown.items():
            after, _ = self._model.step(place.state, call)
            if after == place.state:
                continue
            # Of equal calls the earliest one may do whatever a later one may.
            unused = (number for number in numbers if number < moment.unknown and not place.used >> number & 1)
            if (number := next(unused, None)) is not None:
                yield self._place(place.moment, after, place.ahead, place.owed, place.used | 1 << number)
        for bit, operation in sorted(moment.changing.items(), key=lambda item: item[0] == moment.bit):
            if not place.ahead & bit:
                after, result = self._model.step(place.state, operation.call)
                if result == _done(operation).result:
                    yield self._place(place.moment, after, place.ahead | bit, place.owed, place.used)

    def _place(self, number: int, state: Hashable, ahead: int, owed: int, used: int) -> _Place:
        """Return a place, once everything has observed whose result fits its state."""
        for bit, operation in self._moments[number].observing.items():
            if owed & bit and self._model.step(state, operation.call)[1] == _done(operation).result:
                owed &= ~bit
        return _Place(number, state, ahead, owed, used)


def _moments(operations: Sequence[Operation], model: Model) -> list[_Moment]:
    """Return the answers in order; at one instant all calls come first, since they may overlap."""
    events: list[tuple[float, bool, int]] = []
    for number, operation in enumerate(operations):
        events.append((operation.called, False, number))
        if isinstance(operation.outcome, Done):
            assert operation.outcome.answered >= operation.called, f"answered before it was asked: {operation}"
            events.append((operation.outcome.answered, True, number))
    moments: list[_Moment] = []
    changing: dict[int, Operation] = {}
    observing: dict[int, Operation] = {}
    bits: dict[int, int] = {}
    fresh = unknown = 0
    for _, is_answer, number in sorted(events):
        operation = operations[number]
        if isinstance(operation.outcome, Unknown):
            unknown += 1
            continue
        observes = model.observes(operation.call, _done(operation).result)
        if not is_answer:
            bit = bits[number] = next(1 << n for n in count() if 1 << n not in changing and 1 << n not in observing)
            (observing if observes else changing)[bit] = operation
            fresh |= bit if observes else 0
            continue
        bit = bits.pop(number)
        moments.append(_Moment(operation, bit, observes, dict(changing), dict(observing), fresh, unknown))
        fresh = 0
        del (observing if observes else changing)[bit]
    return moments


def _unknown(operations: Iterable[Operation]) -> list[Operation]:
    """Return the calls of unknown outcome, in their order."""
    return sorted((o for o in operations if isinstance(o.outcome, Unknown)), key=lambda o: o.called)


def _done(operation: Operation) -> Done:
    assert isinstance(operation.outcome, Done)
    return operation.outcome


def _around(operations: Sequence[Operation], culprit: Operation, margin: int = 8) -> tuple[Operation, ...]:
    """Return what a person wants to see beside a violation: the last few answered before it, and what was open."""
    end = _done(culprit).answered
    begun = [operation for operation in operations if operation.called <= end]
    answered = [o for o in begun if isinstance(o.outcome, Done) and o.outcome.answered <= end]
    still_open = [o for o in begun if o not in answered]
    latest = sorted(answered, key=lambda o: _done(o).answered)
    return tuple(sorted((*latest[-margin:], *still_open[-margin:]), key=lambda o: o.called))
