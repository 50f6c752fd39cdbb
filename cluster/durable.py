"""Files and names that outlive a power loss; an `OSError` of these is for the caller to turn into its own fault."""

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Make the bytes of a file durable."""
    _sync(path, os.O_RDWR)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
