"""Part 1: compare-and-set throughput and latency, both systems in one run, taking turns."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench import etcd, voters
from bench.figures import Load, Measured, Shape, spread
from bench.member import leader_of
from bench.processes import ENVIRON, Failed
from bench.table import say, table

SHAPES: Final = (Shape(64, 1), Shape(8, 100), Shape(1, 1))
BUSY: Final = 0.85
"""Share of a core from which on a client process may be what limits a figure."""

INSIDE: Final = "fencepost, clients inside the leader"
HTTP: Final = "fencepost, over one HTTP hop"
ETCD: Final = "etcd, over its JSON gateway"

Way = Callable[[Load], Measured]


def run(folder: Path, repeats: int, warm_s: float, counted_s: float, *, with_etcd: bool) -> None:
    """Measure every shape in every way, so many times, in the order A B C A B C, and print the tables."""
    with ExitStack() as stack:
        ours = stack.enter_context(voters.running(folder / "voters"))
        ways: dict[str, Way] = {
            INSIDE: ours.load_inside,
            HTTP: lambda load: over_http(ours.ports[leader_of(ours)], ours.token, load),
        }
        if with_etcd:
            theirs = stack.enter_context(etcd.running(folder / "etcd"))
            ways[ETCD] = lambda load: over_http(theirs.ports[leader_of(theirs)], "etcd", load)
        for shape in SHAPES:
            load = Load(shape, warm_s, counted_s)
            seen: dict[str, list[Measured]] = {name: [] for name in ways}
            for _ in range(repeats):
                for name, way in ways.items():
                    seen[name].append(way(load))
            _print(shape, seen)


def over_http(port: int, who: str, load: Load) -> Measured:
    """Run the clients in a process of their own."""
    argv = [sys.executable, "-m", "bench.load_client", str(port), who, msgspec.json.encode(load).decode()]
    within_s = load.warm_s + load.counted_s + 60
    done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRON, timeout=within_s, check=False)
    if done.returncode != 0:
        raise Failed(f"the client process failed: {done.stderr[-800:]}")
    return msgspec.json.decode(done.stdout, type=Measured)


def _print(shape: Shape, seen: Mapping[str, list[Measured]]) -> None:
    rows = [
        [
            name,
            spread([each.ops_per_s for each in found]),
            spread([each.p50_ms for each in found], 2),
            spread([each.p99_ms for each in found], 2),
            spread([100 * each.client_cpu for each in found]),
            str(sum(each.refused for each in found)),
        ]
        for name, found in seen.items()
    ]
    say(f"\n### {shape}: {shape.clients} closed-loop clients, {shape.ops} compare-and-set in a command\n")
    table(["who", "ops/s", "p50 ms", "p99 ms", "client CPU % of a core", "refused"], rows)
    if ETCD in seen:
        say("")
        table(
            ["median of the ratios within a round, to etcd", "ops/s", "p50", "p99"],
            [_ratios(name, seen[name], seen[ETCD]) for name in (INSIDE, HTTP)],
        )
    for name in (HTTP, ETCD):
        if any(each.client_cpu > BUSY for each in seen.get(name, [])):
            say(
                f"\nNote: the client process of `{name}` used over {BUSY:.0%} of a core: it may be what limits this figure."
            )


def _ratios(name: str, ours: list[Measured], theirs: list[Measured]) -> list[str]:
    pairs = list(zip(ours, theirs, strict=True))
    return [
        name,
        f"{median(a.ops_per_s / b.ops_per_s for a, b in pairs if b.ops_per_s):.2f} x",
        f"{median(a.p50_ms / b.p50_ms for a, b in pairs):.2f} x",
        f"{median(a.p99_ms / b.p99_ms for a, b in pairs):.2f} x",
    ]
