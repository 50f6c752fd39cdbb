"""What one seed does: a plan drawn beforehand, so that parts of it can be left out while the rest stays as it is."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
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

    def only(self, numbers: list[int]) -> "Plan":
        """Return it with some of its actions only."""
        return replace(self, actions=tuple(self.actions[number] for number in numbers))

    def to_json(self) -> str:
        """Return it as a text that outlives changes of how plans are drawn."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "actions"}
        actions = [[action.at_s, action.kind, *action.args] for action in self.actions]
        return json.dumps({**own, "actions": actions})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Return the plan of such a text."""
        own = json.loads(text)
        actions = tuple(Action(at_s, kind, tuple(args)) for at_s, kind, *args in own.pop("actions"))
        return cls(**own, actions=actions)


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
    """Draw the actions: in each seed some kinds come more often than usual, and others not at all."""
    drawn = [Action(0.8, "apply", (0,))]
    for rate, kind, args in _KINDS:
        many = _count(random, rate * random.choice((0.0, 0.5, 1.0, 1.0, 2.0)))
        drawn += [Action(round(random.uniform(1.0, FAULTY_S), 3), kind, args(random, plan)) for _ in range(many)]
    return sorted(drawn, key=lambda action: action.at_s)


def _count(random: Random, rate: float) -> int:
    whole = int(rate)
    return whole + (random.random() < rate - whole)


Args = tuple[Any, ...]


def _some_s(random: Random, *lengths_s: float) -> float:
    return round(random.choice(lengths_s) * random.random(), 3)


def _voter(random: Random, plan: Plan) -> str:
    return random.choice(("owner", "owner", *(f"node{rank}" for rank in range(1, plan.voters + 1))))


def _worker(random: Random, plan: Plan) -> str:
    return f"worker{random.randint(1, plan.workers)}"


def _host(random: Random, plan: Plan) -> str:
    return random.choice((_voter, _worker))(random, plan)


def _kill_voter(random: Random, plan: Plan) -> Args:
    how = random.choice(("now", "steps", "places", "places"))
    return _voter(random, plan), how, random.randint(1, 150), _some_s(random, 0.1, 0.5, 1.5, 3.0)


def _kill_worker(random: Random, plan: Plan) -> Args:
    how = random.choice(("now", "steps", "places", "places"))
    return _worker(random, plan), how, random.randint(1, 40), _some_s(random, 0.1, 0.5, 1.5, 3.0)


def _part(random: Random, plan: Plan) -> Args:
    """One host from some others: in, out, or both ways."""
    return (
        random.choice((_host(random, plan), _voter(random, plan), "desk")),
        random.choice(("both", "both", "in", "out")),
        random.choice(("all", "voters", "some", "one")),
        _some_s(random, 0.3, 1.0, 3.0, 6.0),
        random.randrange(1 << 16),
    )


def _slow(random: Random, plan: Plan) -> Args:
    return (
        *(_host(random, plan), _voter(random, plan), random.choice((0.05, 0.3, 1.0))),
        _some_s(random, 1.0, 4.0),
    )


def _when(random: Random, plan: Plan) -> Args:
    """Strike just when an attempt has come into a state."""
    state = random.choice(("Claimed", "Admitted", "Admitted", "Accepted", "Cancelling", "Succeeded", "Unknown"))
    what = random.choice(("kill worker", "kill worker", "drain worker", "stall worker", "kill owner", "stall owner"))
    return state, _worker(random, plan), round(random.choice((0, 0, 0.003, 0.02)), 3), what, _some_s(random, 0.5, 3.0)


def _stall(random: Random, plan: Plan) -> Args:
    return _host(random, plan), _some_s(random, 0.3, 1.0, 2.0, 4.0)


def _clock(random: Random, plan: Plan) -> Args:
    who = random.choice((_host(random, plan), _voter(random, plan), "all"))
    return who, random.choice((0.5, -0.5, 3.0, -3.0, 90.0, -90.0, 4_000.0))


_PATHS = ("/v1/poll", "/v1/permits", "/v1/reports")
_KINDS: tuple[tuple[float, str, Callable[[Random, Plan], Args]], ...] = (
    (1.0, "kill voter", _kill_voter),
    (1.5, "kill worker", _kill_worker),
    (0.4, "stop voter", lambda random, plan: (_voter(random, plan), _some_s(random, 0.5, 2.0))),
    (0.4, "drain worker", lambda random, plan: (_worker(random, plan), _some_s(random, 0.5, 2.0))),
    (0.2, "kill all", lambda random, _: (random.random() < 0.5, _some_s(random, 0.5, 2.0))),
    (0.1, "outage", lambda random, _: (round(random.choice((30, 65, 90, 3700)) * (1 + random.random()), 3),)),
    (1.0, "part", _part),
    (0.6, "loss", lambda random, _: (random.choice((0.05, 0.2, 0.5)), _some_s(random, 1.0, 4.0))),
    (0.8, "lose", lambda random, _: (random.choice(_PATHS), random.choice((1, 1, 3, 20)))),
    (1.5, "when", _when),
    (0.6, "slow", _slow),
    (0.6, "cut", lambda random, plan: (_voter(random, plan), random.randrange(1 << 16))),
    (0.8, "stall", _stall),
    (0.3, "clock", _clock),
    (0.2, "fill", lambda random, plan: (_voter(random, plan), _some_s(random, 1.0, 3.0))),
    (0.3, "flaw", lambda random, plan: (_host(random, plan), random.randint(1, 60), _some_s(random, 0.5, 2.0))),
    (0.15, "wipe", lambda random, plan: (_worker(random, plan), _some_s(random, 0.1, 1.0))),
    (0.15, "clone", lambda random, plan: (_worker(random, plan), _some_s(random, 1.0, 6.0))),
    (1.5, "trigger", lambda random, _: (random.choice("abcd"),)),
    (2.0, "cancel", lambda random, _: (random.randrange(100),)),
    (0.7, "apply", lambda random, _: (random.randrange(1, 5),)),
    (0.7, "enable", lambda random, _: (random.choice("abc"), random.random() < 0.6)),
    (0.5, "attest host", lambda random, plan: (_worker(random, plan),)),
    (0.25, "freeze", lambda random, _: (_some_s(random, 0.5, 3.0),)),
    (0.12, "restore", lambda *_: ()),
    (0.4, "deliver", lambda *_: ()),
    (0.4, "redeliver", lambda random, _: (random.randrange(100),)),
    (0.3, "delete", lambda random, _: (random.choice("abc"),)),
    (3.0, "attest", lambda random, _: (random.randrange(100),)),
    (1.5, "show", lambda random, _: (random.randrange(100),)),
    (0.15, "stop alone", lambda random, _: (_some_s(random, 1.0, 4.0),)),
    (1.5, "overlap", lambda random, _: (random.randrange(8),)),
    (0.7, "trigger", lambda *_: ("e",)),
    (0.7, "beside", lambda random, _: (random.choice("ae"),)),
)
