"""Part 4, on request: full load on cores that others keep busy too, for long; leadership must stay where it is."""

import sys
import time
from pathlib import Path
from typing import Final

from bench import voters
from bench.figures import Load, Shape, spread
from bench.member import leader_of
from bench.processes import Processes
from bench.table import say, table
from bench.voters import Voters

SLICE: Final = Load(Shape(64, 1), warm_s=0.0, counted_s=10.0)
BURNERS: Final = 2
BURNING: Final = "while True: pass"


def run(folder: Path, minutes: float) -> None:
    """Load the leader for so long beside processes that only burn CPU, and print what became of its term."""
    burners = Processes(folder)
    with voters.running(folder / "soak") as cluster:
        leader_of(cluster)
        first = _term(cluster)
        try:
            for rank in range(BURNERS):
                burners.start(f"burner{rank}", [sys.executable, "-c", BURNING])
            slices, ends_s = [], time.perf_counter() + 60 * minutes
            while time.perf_counter() < ends_s:
                slices.append(cluster.load_inside(SLICE))
        finally:
            burners.stop()
        leader_of(cluster)
        last = _term(cluster)
    say(f"\n### {SLICE.shape} inside for {minutes:g} minutes, beside {BURNERS} processes that burn CPU\n")
    table(
        ["what", "seen"],
        [
            ["elections", str(last - first)],
            ["answers that were no success", str(sum(each.refused for each in slices))],
            ["ops/s", spread([each.ops_per_s for each in slices])],
            ["p50, ms", spread([each.p50_ms for each in slices], 2)],
            ["p99, ms", spread([each.p99_ms for each in slices], 2)],
        ],
    )


def _term(cluster: Voters) -> int:
    return max(int(cluster.status(name)["term"]) for name in cluster.ports)
