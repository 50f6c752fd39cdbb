"""Take each guard away in turn and print what notices: `python -m tests.mutants.run cluster [WORD …]`.

A fault of an audited hazard must be noticed by that hazard's own scripted test, and only that is run. For any other,
unit tests and stories come first, the seeded simulation only where they stay green. Words choose faults by name or
hazard, numbers by hazard as in the audit. Exit code 1 if a fault survives.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.mutants.faults import Fault, faulty_copy, misfits, read_faults

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
HANG_S = 300
STORIES = [
    f"tests/simulation/cluster/test_{each}.py"
    for each in ("stories", "elections", "snapshots", "going_back", "replacement", "order", "crashes")
]
TESTS = {"cluster": ["tests/unit/cluster", *STORIES]}
SCRIPTED = {"cluster": "tests/simulation/cluster/hazards"}
NOT_NOTICED = ("SURVIVED", "OUT OF DATE")
SIMULATIONS = {"cluster": ["tests.simulation.cluster.fuzz", "0", "99"]}


def noticed_by(package: str, fault: Fault) -> str | None:
    """Return what went red, or None."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        faulty_copy(fault, Path(home))
        if fault.story is not None:
            own = [SCRIPTED[package], "-k", f"hazard_{fault.story:02} and not the_library"]
            return _red(home, ["-m", "pytest", *own, "-q", "-p", "no:cacheprovider", "--timeout=60"])
        tests = [*TESTS[package], "-q", "-x", "-p", "no:cacheprovider", "--timeout=60"]
        return _red(home, ["-m", "pytest", *tests]) or _red(home, ["-m", *SIMULATIONS[package]])


def _red(home: str, words: list[str]) -> str | None:
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": home}
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=home, env=env, capture_output=True, text=True, timeout=HANG_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    if done.returncode in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "seed "))]
    told = [line.partition(" - ")[0].replace("tests/simulation/cluster/", "")[:150] for line in lines]
    more = f" and {len(told) - 1} more" if len(told) > 1 else ""
    return (told or done.stderr.splitlines()[-1:] or ["it fails"])[0] + more


def main(package: str, words: list[str]) -> int:
    """Run every chosen fault."""
    began, survived = time.monotonic(), 0
    chosen = [f for f in read_faults(package) if not words or any(_chooses(word, f) for word in words)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for processes of its own
        for fault, verdict in zip(chosen, pool.map(partial(_verdict, package), chosen), strict=True):
            survived += verdict.startswith(NOT_NOTICED)
            number = "" if fault.story is None else str(fault.story)
            print(f"{number:>2} {fault.hazard:<11} {fault.name:<52} {verdict}", flush=True)
    print(f"{len(chosen)} faults, {survived} not noticed, {time.monotonic() - began:.0f} s")
    return 1 if survived else 0


def _verdict(package: str, fault: Fault) -> str:
    outdated = misfits(fault)
    return f"OUT OF DATE: {outdated[0]}" if outdated else noticed_by(package, fault) or "SURVIVED"


def _chooses(word: str, fault: Fault) -> bool:
    return int(word) == fault.story if word.isdigit() else word in f"{fault.hazard} {fault.name}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
