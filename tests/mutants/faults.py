"""The lists of deliberate faults, and how one is put into a copy of the checkout."""

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("cluster", "fencepost", "runner", "worker", "tests", "docs")


@dataclass(frozen=True)
class Edit:
    """`find`, which stands once in `file`, becomes `put`."""

    file: str
    find: str
    put: str


@dataclass(frozen=True)
class Fault:
    """One guard taken away.

    Attributes:
        story: number of the audited hazard whose own scripted test must notice, or None: any test may.
        edits: one; more where a hazard is closed twice and either guard alone is enough.
        walk: the walk of the exhaustive search that must find it, or None if none goes there.
        seed: one in which the simulation of the product finds it, where that takes long to look for.
        left: why the simulation does not find it; None if it must.
        test: a file below `tests/` that must find it, where neither simulation nor search do.
    """

    hazard: str
    name: str
    story: int | None
    edits: tuple[Edit, ...]
    walk: str | None = None
    seed: int | None = None
    left: str | None = None
    test: str | None = None


def read_faults(package: str) -> list[Fault]:
    """Return the faults listed for a package."""
    listed = tomllib.loads((Path(__file__).parent / f"{package}.toml").read_text())
    return [_fault(**each) for each in listed["fault"]]


def _fault(
    *,
    hazard: str,
    name: str,
    story: int | None = None,
    also: Sequence[Mapping[str, str]] = (),
    walk: str | None = None,
    seed: int | None = None,
    left: str | None = None,
    test: str | None = None,
    **edit: str,
) -> Fault:
    return Fault(hazard, name, story, tuple(Edit(**each) for each in (edit, *also)), walk, seed, left, test)


def misfits(fault: Fault) -> list[str]:
    """Return what in it does not fit the code as it is: a text that does not stand exactly once in its file."""
    found = [(edit, (ROOT / edit.file).read_text().count(edit.find)) for edit in fault.edits]
    return [f"its text stands {times} times in {edit.file}" for edit, times in found if times != 1]


def faulty_copy(fault: Fault, home: Path) -> None:
    """Copy the checkout into an empty folder, with the fault in it."""
    for name in COPIED:
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", home)
    for edit in fault.edits:
        path = home / edit.file
        path.write_text(path.read_text().replace(edit.find, edit.put))
