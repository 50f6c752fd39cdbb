"""Take each guard away in turn and print what notices: `python -m tests.mutants.run cluster [WORD …]`.

Unit tests and stories come first, the seeded simulation only where they stay green. Words choose faults by name or
hazard. Exit code 1 if a fault survives.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.faults import Fault, faulty_copy, read_faults, times_found

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
HANG_S = 300
STORIES = [
    f"tests/simulation/cluster/test_{each}.py"
    for each in ("stories", "elections", "snapshots", "going_back", "replacement", "order", "crashes")
]
TESTS = {"cluster": ["tests/unit/cluster", *STORIES]}
SIMULATIONS = {"cluster": ["tests.simulation.cluster.fuzz", "0", "99"]}


def noticed_by(package: str, fault: Fault) -> str | None:
    """Return what went red, or None."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        faulty_copy(fault, Path(home))
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
    if done.returncode == 0:
        return None
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "seed "))]
    return (told or done.stderr.splitlines()[-1:] or ["it fails"])[0][:110]


def main(package: str, words: list[str]) -> int:
    """Run every chosen fault."""
    began, survived = time.monotonic(), 0
    chosen = [f for f in read_faults(package) if not words or any(w in f"{f.hazard} {f.name}" for w in words)]
    for fault in chosen:
        found = times_found(fault)
        red = noticed_by(package, fault) if found == 1 else None
        survived += red is None
        verdict = red or ("SURVIVED" if found == 1 else f"OUT OF DATE: its text stands {found} times in {fault.file}")
        print(f"{fault.hazard:<8} {fault.name:<44} {verdict}", flush=True)
    print(f"{len(chosen)} faults, {survived} not noticed, {time.monotonic() - began:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
