"""A folder that appears whole or not at all.

It is built beside its place under another name, synced, and renamed into place: a rename onto a folder that holds
anything fails, so that nothing is ever overwritten, also when two of these run. A process that is killed on the way
leaves at most a hidden folder `.NAME.COMMAND-…`, which nothing reads and which may be removed.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fencepost.faults import Failure

_IN_USE: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


def create_whole(folder: Path, command: str, fill: Callable[[Path], None], token_hex: Callable[[int], str]) -> None:
    """Create a folder; an existing empty one is taken as well.

    Args:
        folder: where.
        command: who creates it, for the draft's name and for errors.
        fill: fills the draft and syncs what it writes.
        token_hex: returns so many random bytes as hex.

    Raises:
        Failure: the place is taken or cannot be written; nothing is changed then.
    """
    place = Path(os.path.realpath(folder))
    _check_free(place, command)
    draft = place.parent / f".{place.name}.{command}-{token_hex(4)}"
    try:
        draft.mkdir(mode=0o777 if command == "init" else 0o700)
        fill(draft)
        _move(draft, place, command)
    except OSError as fault:
        raise Failure(f"{place}: cannot be created: {fault.strerror}") from fault
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # gone by now if it was renamed
    try:
        sync_folder(place.parent)
    except OSError as fault:
        raise Failure(f"{place}: created, but its name may not outlive a power cut: {fault.strerror}") from fault


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_free(place: Path, command: str) -> None:
    """Say early what the rename would refuse, before anything is built."""
    try:
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise _taken(place, command)
        if place.exists() and place.samefile(Path.cwd()):
            raise Failure(f"{place}: this is the current folder, which {command} would replace; name it from outside")
    except OSError as fault:
        raise Failure(f"{place}: cannot be looked at: {fault.strerror}") from fault


def _move(draft: Path, place: Path, command: str) -> None:
    """Give the finished folder its name, unless somebody else took it meanwhile."""
    try:
        draft.rename(place)
    except OSError as fault:
        if fault.errno in _IN_USE:
            raise _taken(place, command) from fault
        raise


def _taken(place: Path, command: str) -> Failure:
    return Failure(f"{place}: is there already and not an empty folder; {command} overwrites nothing, name another one")
