"""What one seed does: a plan drawn beforehand, so that parts of it can be left out while the rest stays as it is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

FAULTY_S = 9.0  # how long faults and operators act
VOTERS = (3, 3, 3, 5)  # by seed


@dataclass(frozen=True)
class Action:
    """One thing that happens, whatever else does.

    Attributes:
        at_s: seconds after the start.
    """

    at_s: float
    kind: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.at_s:7.3f} {self.kind} {' '.join(map(str, self.args))}".rstrip()


@dataclass(frozen=True)
class Plan:
    """A scenario.

    Attributes:
        slots: of each worker.
        wild: how much of the work does not behave.
        power: whether a death may be one of the host.
    """

    seed: int
    voters: int = 3
    workers: int = 1
    slots: int = 2
    wild: float = 0.0
    power: bool = False
    actions: tuple[Action, ...] = ()

    def without(self, numbers: frozenset[int]) -> "Plan":
        """Return it without some of its actions."""
        return replace(self, actions=tuple(a for n, a in enumerate(self.actions) if n not in numbers))


def draw(seed: int) -> Plan:
    """Draw the plan of a seed."""
    random = Random(f"{seed} plan")
    plan = Plan(
        seed=seed,
        voters=VOTERS[seed % len(VOTERS)],
        workers=random.choice((1, 1, 2, 2, 3)),
        slots=random.choice((1, 2, 4)),
        wild=random.choice((0.1, 0.4, 0.8)),
        power=random.random() < 0.3,
    )
    return replace(plan, actions=tuple(_actions(random, plan)))


def _actions(random: Random, plan: Plan) -> list[Action]:
    calm = random.random() < 0.1
    drawn = [Action(0.8, "apply", (0,))]
    for rate, kind, args in _KINDS:
        many = 0 if calm and kind not in _OPERATORS else _count(random, rate)
        drawn += [Action(round(random.uniform(1.0, FAULTY_S), 3), kind, args(random, plan)) for _ in range(many)]
    return sorted(drawn, key=lambda action: action.at_s)


def _count(random: Random, rate: float) -> int:
    whole = int(rate)
    return whole + (random.random() < rate - whole)


def _voter(random: Random, plan: Plan) -> str:
    return random.choice(("owner", "owner", *(f"node{rank}" for rank in range(1, plan.voters + 1))))


def _worker(random: Random, plan: Plan) -> str:
    return f"worker{random.randint(1, plan.workers)}"


def _down_s(random: Random) -> float:
    return round(random.choice((0.1, 0.5, 1.5, 3.0)) * random.random(), 3)


def _kill_voter(random: Random, plan: Plan) -> tuple[Any, ...]:
    how = random.choice(("now", "steps", "places", "places"))
    return _voter(random, plan), how, random.randint(1, 150), _down_s(random)


def _kill_worker(random: Random, plan: Plan) -> tuple[Any, ...]:
    how = random.choice(("now", "steps", "places", "places"))
    return _worker(random, plan), how, random.randint(1, 40), _down_s(random)


_OPERATORS = frozenset({"apply", "trigger", "cancel"})
_KINDS: tuple[tuple[float, str, Callable[[Random, Plan], tuple[Any, ...]]], ...] = (
    (1.0, "kill voter", _kill_voter),
    (1.2, "kill worker", _kill_worker),
    (1.5, "trigger", lambda random, _: (random.choice("abc"),)),
    (1.5, "cancel", lambda random, _: (random.randrange(100),)),
)
