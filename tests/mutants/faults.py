"""The lists of deliberate faults, and how one is put into a copy of the checkout."""

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("cluster", "fencepost", "runner", "worker", "tests", "docs")


@dataclass(frozen=True)
class Fault:
    """One guard taken away: `find`, which stands once in `file`, becomes `put`."""

    hazard: str
    name: str
    file: str
    find: str
    put: str


def read_faults(package: str) -> list[Fault]:
    """Return the faults listed for a package."""
    listed = tomllib.loads((Path(__file__).parent / f"{package}.toml").read_text())
    return [Fault(**each) for each in listed["fault"]]


def times_found(fault: Fault) -> int:
    """Return how often its text stands in its file; a list that fits the code says 1."""
    return (ROOT / fault.file).read_text().count(fault.find)


def faulty_copy(fault: Fault, home: Path) -> None:
    """Copy the checkout into an empty folder, with the fault in it."""
    for name in COPIED:
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", home)
    path = home / fault.file
    path.write_text(path.read_text().replace(fault.find, fault.put))
