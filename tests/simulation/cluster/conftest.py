"""Simulated disks live in memory: what a crash leaves is decided by the simulation, not by the speed of an fsync."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.cluster.recording import files_watched

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as home:
        yield Path(home)


@pytest.fixture(autouse=True)
def _watched() -> Iterator[None]:
    """Record what is done to files, in every story too."""
    with files_watched():
        yield
