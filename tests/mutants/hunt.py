"""Look for a seed of the whole product in which something is wrong: `python -m tests.mutants.hunt SEEDS SECONDS`.

Prints how many seeds it took, and what was found; stops at the first find, and after so many seconds of CPU.
"""

import sys
import time

from tests.simulation.product.quiet import quiet
from tests.simulation.product.scenario import run_seed


def main(seeds: int, seconds: float) -> int:
    """Run seeds from 0 on, one after the other."""
    quiet()
    began = time.process_time()
    for seed in range(seeds):
        violations = run_seed(seed).violations
        if violations:
            print(f"{seed + 1} {violations[0]}")
            return 1
        if time.process_time() - began > seconds:
            print(f"{seed + 1} nothing, and time is up")
            return 0
    print(f"{seeds} nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
