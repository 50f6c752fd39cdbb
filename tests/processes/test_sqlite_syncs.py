"""What SQLite syncs and when, under strace: the simulated power loss (`simulation/cluster/disk.py`) is built on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.cluster import ENVIRON
from tests.processes.system_calls import STRACE, SYNCS, read_calls
from tests.processes.test_system_calls import not_here

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

SCRIPT = """
import os, sys
from pathlib import Path
from cluster import wal
from cluster.database import open_writer
folder = Path(sys.argv[1])
marker = os.open(folder / "marker", os.O_CREAT | os.O_WRONLY)
def step(name):
    os.pwrite(marker, name.encode(), 0)
def commit(db, value):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO t VALUES (?)", (value,))
    db.execute("COMMIT")
for durability in ("FULL", "NORMAL"):
    path = folder / f"{durability}.db"
    step(f"{durability} made")
    db = open_writer(path, durability, create=True)
    step(f"{durability} first commit")
    db.execute("CREATE TABLE t (a)")
    step(f"{durability} commit")
    commit(db, 1)
    step(f"{durability} copied off the loop")
    wal.backfill(path)
    step(f"{durability} emptied")
    assert wal.finish(db) == (True, True)
    step(f"{durability} commit into an empty WAL")
    commit(db, 2)
    step(f"{durability} copied and emptied")
    assert wal.finish(db) == (True, True)
    step("end")
"""


def acts_by_step(folder: Path) -> dict[str, list[str]]:
    """Return what happened to files in each step: writes and syncs of db, wal, folder, in order, repeats as one."""
    trace = folder / "trace"
    command = [*STRACE, "-o", str(trace), sys.executable, "-c", SCRIPT, str(folder)]
    try:
        done = subprocess.run(command, env=ENVIRON, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        not_here("strace is not installed")
    if "ptrace" in done.stderr or not trace.exists():
        not_here(f"strace may not trace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    acts: dict[str, list[str]] = {}
    step = ""
    for call in read_calls(trace.read_text().splitlines()):
        name = Path(call.what).name
        if name == "marker":
            step = call.content.decode()
        kinds = {call.what == str(folder): "folder", name.endswith(".db"): "db", name.endswith(".db-wal"): "wal"}
        what = kinds.get(True)
        if what is not None:
            header = "'s header" if what == "wal" and call.name == "pwrite64" and len(call.content) == 32 else ""
            act = f"sync {what}" if call.name in SYNCS else f"write {what}{header}"
            done_so_far = acts.setdefault(step, [])
            if done_so_far[-1:] != [act]:
                done_so_far.append(act)
    return acts


def test_sqlite_syncs_what_the_simulated_disk_believes(tmp_path: Path) -> None:
    acts = acts_by_step(Path(os.path.realpath(tmp_path)))
    begun, copied = ["write wal's header", "sync wal"], ["sync wal", "write db", "sync db"]
    for durability, synced in (("FULL", ["sync wal"]), ("NORMAL", [])):
        found = {
            step.removeprefix(f"{durability} "): done for step, done in acts.items() if step.startswith(durability)
        }
        assert found == {
            "made": ["sync folder", "write db", "sync db"],
            "first commit": [*begun, "sync folder", "write wal", *synced],
            "commit": ["write wal", *synced],
            "copied off the loop": ["sync wal", "sync folder", "write db", "sync db"],
            "commit into an empty WAL": [*begun, "write wal", *synced],
            "copied and emptied": copied,
        }, durability
