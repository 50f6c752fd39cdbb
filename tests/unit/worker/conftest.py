import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.worker.virtual_time import VirtualLoop
from tests.unit.worker.world import World
from worker.engine import host


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
def nothing_left(folder: Path) -> Iterator[None]:
    """End what a failed test leaves of its commands, so that it disturbs no other one."""
    yield
    for name in (folder, *folder.iterdir()):
        for each in host.traces(name.name, 1, None):
            host.send(each, signal.SIGKILL)


@pytest.fixture
def world(loop: VirtualLoop, folder: Path) -> World:
    return World(loop, folder / "w1")
