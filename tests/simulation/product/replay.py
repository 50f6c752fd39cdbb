"""Show one scenario again: `PYTHONHASHSEED=0 python -m tests.simulation.product.replay SEED|FILE [shrink]`.

Prints the plan and everything that happened. With `shrink`, first leaves out what the violation does not need, and
prints the plan that is left as JSON: put it into `regressions/`, and the suite runs it from then on.
"""

import sys
from pathlib import Path

from tests.simulation.product.plan import Plan, draw
from tests.simulation.product.quiet import quiet
from tests.simulation.product.scenario import run_plan
from tests.simulation.product.shrink import kind_of, shrink


def plan_of(what: str) -> Plan:
    """Return the plan of a seed, or of a file."""
    return draw(int(what)) if what.isdigit() else Plan.from_json(Path(what).read_text(encoding="utf-8"))


def main(what: str, *, shrunk: bool) -> int:
    """Print what happens under a plan, and what it finds."""
    quiet()
    plan = plan_of(what)
    ended = run_plan(plan)
    if shrunk and ended.violations:
        plan = shrink(plan, kind_of(ended.violations[0]))
        ended = run_plan(plan)
    print(*(f"plan {number:3} {action}" for number, action in enumerate(plan.actions)), sep="\n")
    print(*ended.transcript, sep="\n")
    print(*(f"violation: {violation}" for violation in ended.violations), sep="\n")
    if shrunk:
        print(plan.to_json())
    return 1 if ended.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], shrunk=sys.argv[2:] == ["shrink"]))
