"""Part 3: a state that is not empty: throughput with it, memory of each voter, and a start from it."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench import voters
from bench.failover import first_accepted
from bench.figures import MS, Load, Shape, spread
from bench.member import leader_of
from bench.table import say, table
from bench.voters import Voters

SHAPE = Shape(64, 1)


def run(folder: Path, rows: int, times: int, warm_s: float, counted_s: float) -> None:
    """Fill a cluster through its log, start it anew so many times, and print the table."""
    load = Load(SHAPE, warm_s, counted_s)
    with voters.running(folder / "filled") as cluster:
        empty_rss, empty = _rss(cluster), [cluster.load_inside(load).ops_per_s for _ in range(times)]
        took_s = cluster.fill(rows)
        filled, filled_rss = [cluster.load_inside(load).ops_per_s for _ in range(times)], _rss(cluster)
        all_ms = [_all_restarted(cluster) * MS for _ in range(times)]
        fresh_rss = _rss(cluster)
        one_ms = [_one_restarted(cluster) * MS for _ in range(times)]
    say(f"\n### {rows:,} rows, made through the log in {took_s:.1f} s ({rows / took_s:,.0f} rows/s, 8 clients x 100)\n")
    table(
        ["what", "median (least-largest)", "n"],
        [
            [f"ops/s, {SHAPE} inside, before filling", spread(empty), str(times)],
            [f"ops/s, {SHAPE} inside, filled", spread(filled), str(times)],
            ["filled / before", f"{median(filled) / median(empty):.2f} x", ""],
            ["RSS of a voter, new, MiB", spread(empty_rss), "3 voters"],
            ["RSS of a voter, filled and after load, MiB", spread(filled_rss), "3 voters"],
            ["RSS of a voter, filled and started anew, MiB", spread(fresh_rss), "3 voters"],
            ["all three kill -9 and started: ms to the first accepted change", spread(all_ms), str(times)],
            ["a follower kill -9 and started: ms until it has caught up", spread(one_ms), str(times)],
        ],
    )


def _rss(cluster: Voters) -> list[float]:
    leader_of(cluster)
    return [cluster.processes.rss_mib(name) for name in cluster.ports]


def _all_restarted(cluster: Voters) -> float:
    """Return the seconds from the start of three killed voters' processes, interpreter included, to a change."""
    leader_of(cluster)
    cluster.processes.kill(*cluster.ports)
    began_s = time.perf_counter()
    for name in cluster.ports:
        cluster.start(name)
    return asyncio.run(first_accepted(cluster, list(cluster.ports.values()))) - began_s


def _one_restarted(cluster: Voters) -> float:
    """Return the seconds from the start of a killed follower's process until it has applied what its leader had."""
    leader = leader_of(cluster)
    follower = next(name for name in cluster.ports if name != leader)
    cluster.processes.kill(follower)
    target = cluster.status(leader)["applied_index"]
    began_s = time.perf_counter()
    cluster.start(follower)
    cluster.processes.wait_for(f"{follower} to catch up", _caught_up(cluster, follower, target))
    return time.perf_counter() - began_s


def _caught_up(cluster: Voters, name: str, index: int) -> Callable[[], bool]:
    def look() -> bool:
        view: Any = cluster.status(name)
        return bool(view and view["leader"] and view["applied_index"] >= index)

    return look
