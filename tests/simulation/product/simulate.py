"""Many seeds of the whole product: `python -m tests.simulation.product.simulate SEEDS [FIRST]`."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import chain

from tests.simulation.product.quiet import quiet
from tests.simulation.product.scenario import run_seed


def replay_line(seed: int) -> str:
    """Return the command that shows a seed again."""
    return f"PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation.product.replay {seed}"


def told(seed: int) -> tuple[int, list[str], int]:
    """Run one seed; what it found, and how much was submitted."""
    ended = run_seed(seed)
    return seed, ended.violations, len(ended.world.checker.submissions)


def main(seeds: int, first: int) -> int:
    """Run the seeds on all cores."""
    began, submitted, bad = time.monotonic(), 0, 0
    with ProcessPoolExecutor(os.cpu_count(), initializer=quiet) as pool:
        for seed, violations, count in pool.map(told, range(first, first + seeds)):
            submitted += count
            bad += bool(violations)
            for violation in violations[:3]:
                print(f"seed {seed}: {violation}", flush=True)
            if violations:
                print(f"  replay: {replay_line(seed)}", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{seeds} seeds from {first}, {submitted} submissions, {bad} with violations, {seeds / minutes:.0f} a minute")
    return 1 if bad else 0


if __name__ == "__main__":
    numbers = list(chain(map(int, sys.argv[1:]), [0]))
    sys.exit(main(numbers[0], numbers[1]))
