"""`python -m tests.calendar.simulate SEEDS [FIRST]`: the calendar against the oracle, change after change of every zone.

A seed stands for one change of one zone's clock from 1990 to 2040, in an order of its own, and for a place in time
somewhere else in that zone; as many seeds as it prints changes look at each of them once. A seed says what it looked at
again whenever it is run.
"""

import random
import sys
import time
from datetime import datetime, timedelta

from runner.calendar.zones import names, zone
from tests.calendar.drawing import POLICIES, SINCE, UNTIL, disagreement, expression
from tests.calendar.oracle import changes


def places() -> list[tuple[str, datetime]]:
    """Return every change of every zone, shuffled."""
    found = [(name, at) for name in sorted(names()) for at in changes(zone(name), SINCE, UNTIL)]
    random.Random(0).shuffle(found)
    return found


def look(seed: int, place: tuple[str, datetime]) -> str | None:
    """Return what disagrees for one seed, or None."""
    rng = random.Random(f"calendar/{seed}")
    name, changed = place
    elsewhere = SINCE + timedelta(seconds=rng.randrange(int((UNTIL - SINCE).total_seconds())))
    for centre in (changed, elsewhere):
        for policy in (rng.choice(POLICIES), rng.choice(POLICIES)):
            odd = disagreement(expression(rng), zone(name), centre, policy, rng)
            if odd is not None:
                return odd
    return None


def main() -> int:
    seeds, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began, found = time.process_time(), places()
    print(f"{len(names())} zones, {len(found)} changes of a clock from {SINCE.year} to {UNTIL.year - 1}")
    failures = 0
    for seed in range(first, first + seeds):
        odd = look(seed, found[seed % len(found)])
        if odd is not None:
            failures += 1
            print(f"seed {seed}: {odd}\n  replay: python -m tests.calendar.simulate 1 {seed}")
    print(
        f"{seeds} seeds from {first}, 4 comparisons each, {failures} disagree; {time.process_time() - began:.0f} s of CPU"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
