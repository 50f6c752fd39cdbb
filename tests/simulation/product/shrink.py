"""Leaves out of a failing plan whatever it fails without."""

import re
from collections.abc import Callable

from tests.simulation.product.plan import Plan
from tests.simulation.product.scenario import run_plan

MOST_RUNS = 80
_VARYING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+(\.\d+)?|node\w*|worker\w*")


def kind_of(violation: str) -> str:
    """Return what a violation says, without who, where and how much."""
    return _VARYING.sub("", violation)[:48]


def shrink(plan: Plan, kind: str, fails: Callable[[Plan, str], bool] | None = None) -> Plan:
    """Return a part of a failing plan that still finds a violation of this kind; no single action can be left out.

    Args:
        plan: what failed.
        kind: as `kind_of` says of its first violation.
        fails: whether a plan finds it too; runs it by default.
    """
    fails = fails or found_by_running
    kept, width, runs = list(range(len(plan.actions))), max(1, len(plan.actions) // 2), 0
    while width and runs < MOST_RUNS:
        at = 0
        while at < len(kept) and runs < MOST_RUNS:
            fewer = kept[:at] + kept[at + width :]
            runs += 1
            if fails(plan.only(fewer), kind):
                kept = fewer
            else:
                at += width
        width //= 2
    return plan.only(kept)


def found_by_running(plan: Plan, kind: str) -> bool:
    """Run a plan; whether it finds a violation of this kind."""
    return kind in map(kind_of, run_plan(plan).violations)
