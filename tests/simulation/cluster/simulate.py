"""Many seeds of the voter's simulation: `python -m tests.simulation.cluster.simulate SEEDS [FIRST]`.

Prints seeds, acknowledged commands, violations and seeds per minute, and for each failure one line that shows it again.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import chain

from tests.simulation.cluster.fuzz import quiet, replay_line, run_seed


def told(seed: int) -> tuple[int, int, list[str]]:
    """Run one seed in a process of its own; (seed, acknowledged commands, violations)."""
    violations, world = run_seed(seed)
    return seed, len(world.acknowledged), violations


def main(seeds: int, first: int) -> int:
    """Run the seeds on all cores."""
    began, acknowledged, bad, said = time.monotonic(), 0, 0, time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), initializer=quiet) as pool:
        for done, (seed, count, violations) in enumerate(pool.map(told, range(first, first + seeds), chunksize=4), 1):
            acknowledged += count
            bad += bool(violations)
            for violation in violations[:3]:
                print(f"seed {seed}: {violation}\n  replay: {replay_line(seed)}", flush=True)
            if time.monotonic() - said > 15:
                said = time.monotonic()
                print(f"  {done} of {seeds} seeds, {acknowledged} acknowledged, {bad} with violations", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(
        f"{seeds} seeds from {first}, {acknowledged} acknowledged commands, {bad} seeds with violations, "
        f"{seeds / minutes:.0f} seeds per minute"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    numbers = list(chain(map(int, sys.argv[1:]), [0]))
    sys.exit(main(numbers[0], numbers[1]))
