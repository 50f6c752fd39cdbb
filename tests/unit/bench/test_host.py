from pathlib import Path

import pytest

from bench import host
from bench.processes import Failed


def test_the_deepest_and_latest_mount_tells_the_file_system() -> None:
    assert host.file_system(Path("/proc/self")) == "proc"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no file system in memory at /dev/shm")
def test_a_folder_in_memory_is_refused() -> None:
    with pytest.raises(Failed, match="lies in memory"):
        host.disk_folder("/dev/shm")
