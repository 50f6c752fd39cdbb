"""Clusters for scripts: `library(…)` and `ours(…)` each make one on a disk of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import OurRig


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LibraryRig]]:
    made: list[LibraryRig] = []

    def make(voters: int = 3, **settings: Any) -> LibraryRig:
        made.append(LibraryRig(tmp_path / f"library{len(made)}", monkeypatch, voters, **settings))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OurRig]]:
    made: list[OurRig] = []

    def make(voters: int = 3, **settings: Any) -> OurRig:
        made.append(OurRig(tmp_path / f"ours{len(made)}", monkeypatch, voters, **settings))
        return made[-1]

    yield make
    for rig in made:
        rig.close()
