"""Where a run took place: figures mean little without it."""

import os
import platform
import sqlite3
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench import etcd
from bench.figures import MS
from bench.processes import ROOT, Failed
from bench.table import table

PROBES: Final = 50
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


def tell(folder: Path, command: str) -> None:
    """Print the machine, the disk that `folder` is on, and the versions."""
    commit = _told("git", "describe", "--always", "--dirty", "--abbrev=12")
    packages = ", ".join(f"{name} {version(name)}" for name in ("pysyncobj", "aiohttp", "msgspec"))
    p50_ms, p99_ms = _fsync_ms(folder)
    rows = [
        ["command", f"`{command}`"],
        ["when", _told("date", "--utc", "+%Y-%m-%d %H:%M UTC")],
        ["commit", commit],
        [
            "machine",
            f"{os.cpu_count()} x {_processor()}, {_memory_gib():.0f} GiB, {platform.system()} {platform.release()}",
        ],
        ["disk", f"{file_system(folder)}; an append with fdatasync takes p50 {p50_ms:.2f}, p99 {p99_ms:.2f} ms"],
        ["load average before", " ".join(f"{load:.2f}" for load in os.getloadavg())],
        [
            "versions",
            f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}, etcd {etcd.version() or 'absent'}",
        ],
    ]
    table(["what", "here"], rows)


def disk_folder(wanted: str | None) -> Path:
    """Return a folder on a real disk to work in.

    Raises:
        Failed: it lies in memory, where an fsync costs nothing.
    """
    folder = Path(wanted or tempfile.gettempdir())
    if file_system(folder) in IN_MEMORY:
        raise Failed(
            f"{folder} lies in memory, so that fsync would cost nothing; name a folder on a disk with --folder"
        )
    return folder


def file_system(folder: Path) -> str:
    """Return the type of the file system that a folder is on, as the kernel's table of mounts says."""
    place, found = folder.resolve(), ("/", "unknown")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mounted, kind, *_ = line.split(" ")
        if place.is_relative_to(mounted) and len(mounted) >= len(found[0]):  # a later mount covers an earlier one
            found = mounted, kind
    return found[1]


def _fsync_ms(folder: Path) -> tuple[float, float]:
    took = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(PROBES):
            began_s = time.perf_counter()
            file.write(bytes(512))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began_s) * MS)
    took.sort()
    return took[PROBES // 2], took[PROBES * 99 // 100]


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return text.partition("model name")[2].partition("\n")[0].strip("\t: ") or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _told(*argv: str) -> str:
    """Return what a small program says, or why not."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False, cwd=ROOT)
    except OSError as fault:
        return f"unknown ({argv[0]}: {fault.strerror})"
    return done.stdout.strip() or "unknown"
