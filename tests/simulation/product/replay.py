"""Show one seed: `PYTHONHASHSEED=0 python -m tests.simulation.product.replay SEED` prints its plan and transcript."""

import sys

from tests.simulation.product.quiet import quiet
from tests.simulation.product.scenario import run_seed


def main(seed: int) -> int:
    """Print what happens under a seed, and what it finds."""
    quiet()
    ended = run_seed(seed)
    print(*(f"plan {action}" for action in ended.plan.actions), sep="\n")
    print(*ended.transcript, sep="\n")
    print(*(f"seed {seed}: {violation}" for violation in ended.violations), sep="\n")
    return 1 if ended.violations else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
