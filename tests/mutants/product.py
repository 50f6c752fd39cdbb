"""Put each fault of product.toml into a copy of the product, and print what finds it: `make mutants [ONLY=word]`.

The simulator of the whole product runs seeds from 0 on (first the one that is known to find it, if the list names one)
and must notice within 2,000; it gives up after LONGEST_S seconds of CPU, and that counts as missed, unless `left` says
why: then it is not run. Beside it stands what a walk of the exhaustive search says, where one goes there, and a file of
tests, where one is named. All stop at the first find. Words choose faults by name or hazard.
Exit code 1 if a walk or a file misses its fault, or the simulator one whose `left` does not say why.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.faults import Fault, faulty_copy, misfits, read_faults

MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
SEEDS: Final = 2_000
LONGEST_S: Final = float(os.environ.get("LONGEST_S", "300"))


@dataclass(frozen=True)
class Verdict:
    """What found a fault: the simulator, after so many seeds, and the search."""

    seeds: int
    simulated: str | None
    simulated_s: float
    searched: str | None
    searched_s: float
    tested: str | None = None
    outdated: str | None = None


def verdict(fault: Fault) -> Verdict:
    """Run both over a copy of the product with the fault in it."""
    outdated = misfits(fault)
    if outdated:
        return Verdict(0, None, 0.0, None, 0.0, outdated=outdated[0])
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        faulty_copy(fault, Path(home))
        searched, searched_s = None, 0.0
        if fault.walk is not None:
            done, searched_s = _run(home, ["tests.search", fault.walk, "--first", "--jobs", "1"])
            searched = _wrong(done)
        tested = (
            None
            if fault.test is None
            else _broken(_run(home, ["pytest", "-q", "-x", "-n", "0", f"tests/{fault.test}"])[0])
        )
        if fault.left is not None:
            return Verdict(0, None, 0.0, searched, searched_s, tested)
        known = [] if fault.seed is None else [str(fault.seed)]
        simulated, simulated_s = _run(home, ["tests.mutants.hunt", str(SEEDS), str(LONGEST_S), *known])
    seeds, _, what = _last_line(simulated).partition(" ")
    number = int(seeds) if seeds.isdigit() else 1
    found = (what or "it ends with an error") if simulated.returncode else None
    return Verdict(number, found, simulated_s, searched, searched_s, tested)


def _run(home: str, module: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": home}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *module], cwd=home, env=env, capture_output=True, text=True, check=False
    )
    return done, time.monotonic() - began


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout.splitlines() or done.stderr.splitlines() or [""])[-1]


def _broken(done: subprocess.CompletedProcess[str]) -> str | None:
    """Return the first test that failed."""
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return failed[0].removeprefix("FAILED ") if done.returncode == 1 and failed else None


def _wrong(done: subprocess.CompletedProcess[str]) -> str | None:
    """Return the first thing that the search found wrong."""
    if done.returncode == 0:
        return None
    lines = done.stdout.splitlines()
    found = [line.strip() for line in lines if line.startswith("  ") and not line.startswith("   ")]
    return (found or done.stderr.splitlines()[-1:] or ["it ends with an error"])[0]


def told(fault: Fault, found: Verdict) -> str:
    """Return the row of a fault."""
    if found.outdated:
        return f"{fault.hazard:<4} {fault.name:<52} OUT OF DATE: {found.outdated}"
    spent = f"{found.simulated_s:.0f} s"
    missed = f"MISSED in {found.seeds} seeds, {spent}"
    simulated = f"seed {found.seeds - 1}, {spent}: {found.simulated[:110]}" if found.simulated else missed
    simulated = f"left: {fault.left}" if fault.left else simulated
    searched = f"{found.searched_s:.0f} s in {fault.walk}: {found.searched[:110]}" if found.searched else "MISSED"
    searched = searched if fault.walk else "does not go there"
    tested = f"\n      tests:     {found.tested or 'MISSED'}" if fault.test else ""
    return f"{fault.hazard:<4} {fault.name}\n      simulator: {simulated}\n      search:    {searched}{tested}"


def is_fine(fault: Fault, found: Verdict) -> bool:
    """Return whether the right one noticed."""
    simulated = found.simulated is not None or fault.left is not None
    searched = found.searched is not None or fault.walk is None
    tested = found.tested is not None or fault.test is None
    return simulated and searched and tested and (fault.left is None or bool(fault.walk or fault.test))


def main(words: list[str]) -> int:
    """Run every chosen fault, as many at a time as there are cores."""
    began, bad, simulated, searched = time.monotonic(), 0, 0, 0
    chosen = [f for f in read_faults("product") if not words or any(w in f"{f.hazard} {f.name}" for w in words)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for processes of its own
        for fault, found in zip(chosen, pool.map(verdict, chosen), strict=True):
            bad += not is_fine(fault, found)
            simulated += found.simulated is not None
            searched += found.searched is not None
            print(told(fault, found), flush=True)
    counts = f"{len(chosen)} faults: {simulated} found by the simulator, {searched} by the search, {bad} missed"
    print(f"{counts}, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
