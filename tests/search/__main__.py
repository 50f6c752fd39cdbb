"""Walk every interleaving within small bounds: `python -m tests.search [WALK …] [--short | --large] [--first]`.

Prints states, steps and seconds of each walk, and the shortest trace to each thing that is wrong. Exit code 1 if
anything is. `--large` has larger bounds and takes hours; `--first` stops at the first walk that finds something.
"""

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import structlog

from tests.search.bounds import Bounds
from tests.search.walk import Found, walk
from tests.search.walks import FULL, LARGE, SHORT


def show(found: Found) -> None:
    """Print what one walk saw."""
    whole = "" if found.whole else ", cut off at the limit"
    clean = "" if found.traces else ", nothing wrong"
    print(
        f"{found.name:<10} {found.states:>9,} states ({found.books:,} of the checkpoint), {found.steps:>10,} steps,"
        f" {found.seconds:6.1f} s{whole}{clean}",
        flush=True,
    )
    for wrong, lines in sorted(found.traces.items(), key=lambda item: len(item[1])):
        print(f"  {wrong}")
        for n, line in enumerate(lines, 1):
            print(line if line.startswith(" ") else f"    {n:2}. {line}")


def main() -> int:
    """Run the walks that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=__doc__)
    parser.add_argument("walks", nargs="*", help="names of walks; all if none is given")
    parser.add_argument("--short", action="store_true", help="the bounds of make test")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--limit", type=int, default=3_000_000, help="states per walk (about 1 KB each)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    opts = parser.parse_args()
    listed = SHORT if opts.short else (*SHORT, *(LARGE if opts.large else FULL))
    chosen = [bounds for bounds in listed if not opts.walks or bounds.name in opts.walks]
    if not chosen:
        parser.error(f"no such walk; there are {', '.join(bounds.name for bounds in listed)}")
    states = wrongs = 0
    for found in _walked(chosen, first=opts.first, limit=opts.limit, jobs=opts.jobs):
        show(found)
        states += found.states
        wrongs += len(found.traces)
        if opts.first and wrongs:
            break
    print(f"{states:,} states, {wrongs} things wrong")
    return 1 if wrongs else 0


def _walked(chosen: list[Bounds], *, first: bool, limit: int, jobs: int) -> Iterator[Found]:
    one = partial(walk, first=first, limit=limit)
    if jobs == 1:
        _hush()
        yield from map(one, chosen)
        return
    with ProcessPoolExecutor(jobs, initializer=_hush) as pool:
        yield from pool.map(one, chosen)


def _hush() -> None:
    """Let the product's log lines, one for each of a million lost attempts, go nowhere."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    sys.exit(main())
