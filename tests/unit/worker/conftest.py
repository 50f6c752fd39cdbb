from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.worker.virtual_time import VirtualLoop
from tests.unit.worker.world import World


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a fast disk, since every commit is synced."""
    fast = Path("/dev/shm")
    with TemporaryDirectory(dir=fast if fast.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def world(loop: VirtualLoop, folder: Path) -> World:
    return World(loop, folder / "w1")
