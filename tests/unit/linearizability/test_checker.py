"""The judge of the storms: what it lets pass, each kind of violation that it must not, and a slow judge that agrees."""

import random
from itertools import permutations

import pytest

from tests.linearizability.cells import Add, Call, Cell, CompareAndSet, Read, Write
from tests.linearizability.checker import Undecided, check
from tests.linearizability.history import Done, NotDone, Operation, Unknown


def did(call: Call, result: object, called: float, answered: float, key: str = "x") -> Operation:
    return Operation(key, call, called, Done(result, answered))


def denied(call: Call, called: float) -> Operation:
    return Operation("x", call, called, NotDone())


def unknown(call: Call, called: float) -> Operation:
    return Operation("x", call, called, Unknown())


GOOD: dict[str, list[Operation]] = {
    "nothing at all": [],
    "one after the other": [did(Write(1), None, 0, 1), did(Read(), 1, 2, 3), did(CompareAndSet(1, 2), True, 4, 5)],
    "a read beside a write sees the old value": [did(Write(1), None, 0, 9), did(Read(), 0, 1, 2)],
    "a read beside a write sees the new value": [did(Write(1), None, 0, 9), did(Read(), 1, 1, 2)],
    "two writes at once, in either order": [
        did(Write(1), None, 0, 5),
        did(Write(2), None, 0, 5),
        did(Read(), 1, 6, 7),
    ],
    "of two that compare one wins": [
        did(CompareAndSet(0, 1), False, 0, 5),
        did(CompareAndSet(0, 2), True, 0, 5),
        did(Read(), 2, 6, 7),
    ],
    "an unknown one took effect long after": [
        unknown(Write(1), 0),
        did(Write(2), None, 1, 2),
        did(Read(), 2, 3, 4),
        did(Read(), 1, 5, 6),
    ],
    "an unknown one never took effect": [unknown(Write(1), 0), did(Read(), 0, 1, 2), did(Read(), 0, 3, 4)],
    "an unknown one made another succeed": [unknown(Write(1), 0), did(CompareAndSet(1, 2), True, 1, 2)],
    "unknown ones took effect in another order than they were called in": [
        unknown(CompareAndSet(1, 2), 0),
        unknown(CompareAndSet(0, 1), 1),
        did(Read(), 2, 2, 3),
    ],
    "of equal unknown ones some": [*[unknown(Add(1), i) for i in range(5)], did(Read(), 3, 9, 10)],
    "what was not done left no trace": [denied(Write(1), 0), did(Read(), 0, 1, 2)],
    "an answer and a call at one instant overlap": [did(Write(1), None, 0, 1), did(Read(), 0, 1, 2)],
    "keys have nothing to do with each other": [did(Write(1), None, 0, 1, "x"), did(Read(), 0, 2, 3, "y")],
    "a counter": [did(Add(2), 2, 0, 9), did(Add(3), 5, 1, 8), did(Read(), 5, 10, 11)],
}
BAD: dict[str, list[Operation]] = {
    "lost write": [did(Write(1), None, 0, 1), did(Read(), 0, 2, 3)],
    "lost compare-and-set": [did(CompareAndSet(0, 1), True, 0, 1), did(CompareAndSet(0, 2), True, 2, 3)],
    "lost addition": [did(Add(1), 1, 0, 1), did(Add(1), 1, 2, 3)],
    "stale read": [did(Write(1), None, 0, 1), did(Write(2), None, 2, 3), did(Read(), 1, 4, 5)],
    "the past after the future": [did(Write(1), None, 0, 9), did(Read(), 1, 1, 2), did(Read(), 0, 3, 4)],
    "done but denied": [denied(Write(1), 0), did(Read(), 1, 1, 2)],
    "denied addition that counts": [denied(Add(1), 0), did(Add(1), 2, 1, 2)],
    "acknowledged addition applied twice": [did(Add(1), 1, 0, 1), did(Read(), 2, 2, 3)],
    "unknown addition applied twice": [unknown(Add(1), 0), did(Read(), 1, 1, 2), did(Read(), 2, 3, 4)],
    "unknown compare-and-set applied twice": [
        unknown(CompareAndSet(0, 1), 0),
        did(Read(), 1, 1, 2),
        did(CompareAndSet(1, 0), True, 3, 4),
        did(Read(), 1, 5, 6),
    ],
    "unknown one seen before its call": [did(Read(), 1, 0, 1), unknown(Write(1), 2)],
    "a value out of nowhere": [did(Read(), 7, 0, 1)],
    "both of two that compare win": [did(CompareAndSet(0, 1), True, 0, 5), did(CompareAndSet(0, 2), True, 0, 5)],
    "refused though it had to succeed": [did(CompareAndSet(0, 1), False, 0, 1)],
}


@pytest.mark.parametrize("name", GOOD)
def test_lets_pass(name: str) -> None:
    assert check(GOOD[name], Cell()) == []


@pytest.mark.parametrize("name", BAD)
def test_finds(name: str) -> None:
    (violation,) = check(BAD[name], Cell())
    assert "no order explains" in str(violation)


def test_names_the_first_answer_that_nothing_explains() -> None:
    culprit = did(Read(), 1, 4, 5)
    history = [did(Read(), 2, 6, 7), culprit, did(Write(2), None, 2, 3), did(Write(1), None, 0, 1)]
    (violation,) = check(history, Cell())
    assert violation.operation == culprit
    assert violation.states == (2,)


def explained(history: list[Operation]) -> bool:
    """Judge slowly, by another way: try every order of every choice of the unknown ones."""
    sure = [o for o in history if isinstance(o.outcome, Done)]
    maybe = [o for o in history if isinstance(o.outcome, Unknown)]
    choices = ([o for n, o in enumerate(maybe) if chosen >> n & 1] for chosen in range(1 << len(maybe)))
    return any(in_order(order) for some in choices for order in permutations([*sure, *some]))


def in_order(order: tuple[Operation, ...]) -> bool:
    state, latest_call = 0, 0.0
    for operation in order:
        latest_call = max(latest_call, operation.called)
        state, result = Cell().step(state, operation.call)
        if isinstance(operation.outcome, Done) and (
            operation.outcome.answered < latest_call or operation.outcome.result != result
        ):
            return False
    return True


def drawn(dice: random.Random) -> list[Operation]:
    """Draw a short history with answers that are plausible, and often wrong."""
    history = []
    for _ in range(dice.randint(2, 6)):
        call = dice.choice(
            (Read(), Write(dice.randint(1, 2)), CompareAndSet(dice.randint(0, 1), dice.randint(1, 2)), Add(1))
        )
        called = dice.randint(0, 8)
        _, result = Cell().step(dice.randint(0, 2), call)
        outcome = dice.choice((Done(result, called + dice.randint(0, 5)),) * 4 + (Unknown(), NotDone()))
        history.append(Operation("x", call, called, outcome))
    return history


def test_agrees_with_a_judge_that_tries_every_order() -> None:
    dice = random.Random(20261130)
    verdicts = []
    for _ in range(2000):
        history = drawn(dice)
        verdicts.append(explained(history))
        assert (check(history, Cell()) == []) == verdicts[-1], history
    assert 200 < sum(verdicts) < 1800, "both verdicts must be common, or this shows little"


def lived(dice: random.Random, clients: int, operations: int, unknown_share: float) -> list[Operation]:
    """Let clients use a true cell: each call happens somewhere between its call and its answer."""
    state, history, values = 0, [], iter(range(1, operations + 1))
    free_at = [0.0] * clients
    spans = []
    for _ in range(operations):
        client = min(range(clients), key=free_at.__getitem__)
        called = free_at[client]
        happens, answered = called + dice.random(), called + 1 + dice.random()
        free_at[client] = answered + dice.random() / 10
        spans.append((happens, called, answered))
    for happens, called, answered in sorted(spans):
        del happens
        kind = dice.random()
        call: Call = Read()
        if kind < 0.3:
            call = Write(next(values))
        elif kind < 0.7:
            call = CompareAndSet(state if dice.random() < 0.7 else -1, next(values))
        lost = dice.random() < unknown_share and not isinstance(call, Read)
        took_effect = not lost or dice.random() < 0.5
        after, result = Cell().step(state, call)
        state = after if took_effect else state
        history.append(Operation("x", call, called, Unknown() if lost else Done(result, answered)))
    return history


def test_thousands_of_operations_need_few_ways() -> None:
    history = lived(random.Random(1), clients=4, operations=5000, unknown_share=0.005)
    assert sum(isinstance(o.outcome, Unknown) for o in history) > 10
    assert check(history, Cell(), most_places=40_000) == []


def test_one_wrong_answer_among_thousands_is_found() -> None:
    history = lived(random.Random(2), clients=3, operations=1000, unknown_share=0.005)
    reads = [n for n, o in enumerate(history) if isinstance(o.call, Read) and isinstance(o.outcome, Done)]
    late = reads[-1]
    first_write = next(o.call.value for o in history if isinstance(o.call, Write) and isinstance(o.outcome, Done))
    outcome = history[late].outcome
    assert isinstance(outcome, Done)
    history[late] = Operation("x", Read(), history[late].called, Done(first_write, outcome.answered))
    (violation,) = check(history, Cell())
    assert violation.operation == history[late]


def test_says_when_it_cannot_decide() -> None:
    history = [*[did(Write(n), None, 0, 100 + n) for n in range(12)], did(Read(), -1, 0, 200)]
    with pytest.raises(Undecided):
        check(history, Cell(), most_places=50)
