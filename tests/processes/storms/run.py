"""Long storms: `python -m tests.processes.storms.run SECONDS SEED NETWORK [FAULT]` (`make storm`).

Rounds of 15 s, each a cluster of its own with the next seed. NETWORK is loopback, proxy, namespaces, or all for one
after the other. FAULT takes away a guard of the process around the voter, to see that a storm finds it.
"""

import asyncio
import sys
import time
from collections import Counter
from itertools import count

from tests.processes.storms.storm import storm

ROUND_S = 15.0


def main(seconds: str, seed: str, network: str = "all", fault: str = "") -> int:
    """Print each round, then the sums; return 1 if anything was violated."""
    kinds = ("loopback", "proxy", "namespaces") if network == "all" else (network,)
    faults: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    events: Counter[str] = Counter()
    bad = 0
    raged_s = 0.0
    for number in count():
        if raged_s >= float(seconds):
            break
        kind, round_seed = kinds[number % len(kinds)], int(seed) + number
        began_s = time.monotonic()
        report = asyncio.run(storm(kind, round_seed, ROUND_S, fault))
        raged_s += ROUND_S
        faults += report.faults
        outcomes += report.outcomes
        events += report.events
        bad += bool(report.violations)
        sys.stdout.write(
            f"seed {round_seed} {kind}: {report.faults.total()} faults, {dict(report.outcomes)}, {dict(report.events)},"
            f" {len(report.violations)} violations, {time.monotonic() - began_s:.1f} s\n"
        )
        for violation in report.violations:
            sys.stdout.write(f"{violation}\n")
        sys.stdout.flush()
    sys.stdout.write(
        f"{raged_s:.0f} s of storm, {faults.total()} faults: {dict(faults)}\n"
        f"calls: {dict(outcomes)}; log: {dict(events)}; rounds with violations: {bad}\n"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
