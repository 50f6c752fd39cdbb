"""Many seeds of the whole product: `python -m tests.simulation.product.simulate SEEDS [FIRST [stop]]`.

Prints each violation with one line that shows it again, then coverage, crash rows and seeds per minute. With `stop`,
ends at the first seed that finds something. The exit code is 1 if any did.
"""

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.product import coverage, crash_rows
from tests.simulation.product.quiet import quiet
from tests.simulation.product.scenario import run_seed

SAY_S = 20.0


@dataclass
class Told:
    """What seeds found and met.

    Attributes:
        bad: violations by seed.
    """

    seeds: int = 0
    submissions: int = 0
    operations: int = 0
    virtual_s: float = 0.0
    bad: dict[int, list[str]] = field(default_factory=dict)
    crashes: Counter[str] = field(default_factory=Counter)
    attempts: Counter[coverage.Pair] = field(default_factory=Counter)
    runs: Counter[coverage.Pair] = field(default_factory=Counter)

    def add(self, other: "Told") -> None:
        """Take in what other seeds told."""
        self.seeds += other.seeds
        self.submissions += other.submissions
        self.operations += other.operations
        self.virtual_s += other.virtual_s
        self.bad |= other.bad
        for mine, theirs in (
            (self.crashes, other.crashes),
            (self.attempts, other.attempts),
            (self.runs, other.runs),
        ):
            mine.update(theirs)


def replay_line(seed: int) -> str:
    """Return the command that shows a seed again."""
    return f"PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation.product.replay {seed}"


def told(seed: int) -> Told:
    """Run one seed."""
    ended = run_seed(seed)
    checker, seen = ended.world.checker, ended.world.coverage
    return Told(
        seeds=1,
        submissions=len(checker.submissions),
        operations=checker.linear.count(),
        virtual_s=ended.world.loop.now_s - 1000,
        bad={seed: ended.violations} if ended.violations else {},
        crashes=checker.crashes.hits,
        attempts=seen.attempts,
        runs=seen.runs,
    )


def main(seeds: int, first: int, *, stop: bool) -> int:
    """Run the seeds on all cores."""
    began = said = time.monotonic()
    found = Told()
    # Not an executor: one whose processes are renewed stands still for ever once all of them are (python/cpython#115634).
    with multiprocessing.get_context("spawn").Pool(initializer=quiet, maxtasksperchild=200) as pool:
        for each in pool.imap(told, range(first, first + seeds)):
            found.add(each)
            for seed, violations in each.bad.items():
                print(*(f"seed {seed}: {violation[:600]}" for violation in violations[:3]), sep="\n")
                print(f"  replay: {replay_line(seed)}", flush=True)
            if each.bad and stop:
                break
            if time.monotonic() - said > SAY_S:
                said = time.monotonic()
                print(f"  {found.seeds} of {seeds} seeds, {len(found.bad)} with violations", flush=True)
    print(*_summary(found, (time.monotonic() - began) / 60), sep="\n")
    return 1 if found.bad else 0


def _summary(found: Told, minutes: float) -> Iterable[str]:
    attempts, runs = coverage.tables()
    every = coverage.every_pair_of_attempts()
    yield "crash rows of DESIGN section 5:"
    yield from (f"  {found.crashes[row]:6}  {row}" for row in crash_rows.ROWS)
    yield _covered("(attempt state, op) pairs that the table has", found.attempts, attempts)
    yield _covered("(attempt state, op) pairs of all, refused ones too", found.attempts, every)
    yield _covered("(run state, why) pairs that the table has", found.runs, runs)
    yield (
        f"{found.seeds} seeds, {found.submissions} submissions, {found.operations} operations checked for"
        f" linearizability, {found.virtual_s:.0f} virtual seconds; {len(found.bad)} seeds with violations;"
        f" {found.seeds / minutes:.0f} seeds per minute"
    )


def _covered(what: str, seen: Counter[coverage.Pair], pairs: set[coverage.Pair]) -> str:
    missing = ", ".join("/".join(pair) for pair in sorted(pairs - seen.keys()))
    return f"{what}: {len(pairs & seen.keys())} of {len(pairs)}; not met: {missing or 'none'}"


if __name__ == "__main__":
    words = sys.argv[1:]
    given = [int(word) for word in words if word.isdigit()]
    sys.exit(main(given[0] if given else 1000, given[1] if len(given) > 1 else 0, stop="stop" in words))
