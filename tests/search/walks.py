"""The walks: each about another part of the protocol, in bounds that let it be walked to its end.

The short ones run with every `make test`; the number of states of each is written down, since a walk that silently
lost some of its steps would find nothing wrong either.
"""

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tests.search.bounds import Bounds

_ONE: Final = Bounds("one", attempts=1, allowed=1)
_TWO: Final = Bounds("two", runs=2, attempts=1, allowed=1, lives=1)

SHORT: Final = (
    replace(_ONE, remote=True, expiry=True, budget={"crash": 1, "cancel": 1}),
    Bounds("retry", lives=1, ends="F", late_words=False, budget={"cancel": 1}),
    replace(
        _ONE, name="takeover", lives=1, ends="S", late_words=False, budget={"cancel": 1, "takeover": 1, "stale": 1}
    ),
    replace(_ONE, name="ledger", ends="S", late_words=False, budget={"crash": 1, "attest": 1, "wipe": 1, "clone": 1}),
    replace(_ONE, name="wiped", ends="S", late_words=False, budget={"crash": 1, "wipe": 1, "cancel": 1}),
    replace(_ONE, name="freeze", ends="S", late_words=False, budget={"freeze": 1, "drain": 1, "attest": 1}),
    replace(_ONE, name="polls", lives=1, late_polls=True, ends="S", late_words=False, budget={"takeover": 1}),
    replace(_TWO, name="overlap", ends="S", late_words=False),
    replace(_TWO, name="line", batch=True, ends="S", late_words=False),
    replace(_TWO, name="queue", overlap="queue_one", ends="S", late_words=False),
    replace(_TWO, name="beside", overlap="allow", ends="S", late_words=False),
    replace(_ONE, name="restore", lives=1, ends="S", late_words=False, budget={"restore": 1}),
    Bounds("webhook", webhook=True, allowed=1, lives=1, ends="F", late_words=False, budget={"redeliver": 1}),
)

FULL: Final = (
    replace(
        _ONE, name="one+", remote=True, expiry=True, lives=3, budget={"crash": 2, "cancel": 1, "attest": 2, "drain": 1}
    ),
    Bounds("retry+", expiry=True, budget={"crash": 1, "cancel": 1, "attest": 1}),
    replace(_ONE, name="takeover+", budget={"crash": 1, "cancel": 1, "attest": 1, "takeover": 1, "stale": 1}),
    replace(
        _ONE, name="ledger+", lives=3, workers=2, budget={"crash": 1, "attest": 1, "wipe": 1, "clone": 1, "cancel": 1}
    ),
    replace(_ONE, name="freeze+", budget={"freeze": 1, "drain": 1, "attest": 1, "takeover": 1, "crash": 1}),
    replace(_ONE, name="polls+", late_polls=True, budget={"takeover": 1, "cancel": 1, "crash": 1}),
    replace(_TWO, name="overlap+", budget={"cancel": 1}),
    replace(_TWO, name="line+", batch=True, workers=2, budget={"cancel": 1}),
    replace(_TWO, name="retired", ends="S", late_words=False, budget={"attest": 1}),
    replace(_TWO, name="previous", overlap="cancel_previous", ends="S", late_words=False),
    replace(_TWO, name="previous+", overlap="cancel_previous", budget={"attest": 1}),
    replace(_TWO, name="queue+", runs=3, overlap="queue_one", ends="S", late_words=False),
    replace(_TWO, name="beside+", overlap="allow", concurrent=2, budget={"cancel": 1}),
    replace(_ONE, name="restore+", attempts=2, budget={"restore": 1, "crash": 1, "cancel": 1, "attest": 1}),
    Bounds("redeliver+", webhook=True, allowed=1, lives=1, ends="SF", budget={"redeliver": 1}),
    Bounds("webhook+", webhook=True, allowed=1, lives=1, budget={"attest": 1}),
)

_LARGER: Final = MappingProxyType(
    {
        "one+": {"workers": 2},
        "retry+": {"attempts": 3, "remote": True},
        "takeover+": {"attempts": 2},
        "ledger+": {"attempts": 2, "remote": True},
        "freeze+": {"attempts": 2},
        "polls+": {"lives": 3, "attempts": 2},
        "overlap+": {"attempts": 2, "allowed": 2, "lives": 2, "budget": {"cancel": 1, "crash": 1}},
        "line+": {"attempts": 2},
        "retired": {"late_words": True},
        "previous": {"batch": True},
        "previous+": {"attempts": 2, "workers": 2},
        "queue+": {"budget": {"cancel": 1}},
        "beside+": {"runs": 3},
        "restore+": {"lives": 3, "attempts": 3},
        "redeliver+": {"runs": 2, "lives": 2},
        "webhook+": {"lives": 2, "budget": {"attest": 1, "crash": 1, "cancel": 1}},
    }
)
LARGE: Final = tuple(replace(bounds, **_LARGER[bounds.name]) for bounds in FULL)
