"""`fencepost init`: a new cluster's folder, whole or not at all.

It is built beside its place under another name, synced, and renamed into place: a rename onto a folder that holds
anything fails, so that nothing is ever overwritten, also when two of these run. A process that is killed on the way
leaves at most a hidden folder `.NAME.init-…`, which nothing reads and which may be removed.
"""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cluster.identity import create_disk
from cluster.ports import Identity
from fencepost.faults import Failure
from fencepost.layout import Layout

TOKEN_BYTES: Final = 32

_IN_USE: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


def create(folder: Path, layout: Layout, token_hex: Callable[[int], str]) -> None:
    """Create a cluster's folder: configurations, credentials (0600) and data folders with genesis identity.

    An existing empty folder is taken as well.

    Args:
        token_hex: returns so many random bytes, fit for a secret, as hex.

    Raises:
        Failure: the place is taken or cannot be written; nothing is changed then.
    """
    place = Path(os.path.realpath(folder))
    _check_free(place)
    draft = place.parent / f".{place.name}.init-{token_hex(4)}"
    try:
        draft.mkdir()
        _fill(draft, layout, token_hex)
        _move(draft, place)
    except OSError as fault:
        raise Failure(f"{place}: cannot be created: {fault.strerror}") from fault
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # gone by now if it was renamed
    try:
        _sync_folder(place.parent)
    except OSError as fault:
        raise Failure(f"{place}: created, but its name may not outlive a power cut: {fault.strerror}") from fault


def _check_free(place: Path) -> None:
    """Say early what the rename would refuse, before anything is built."""
    try:
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise _taken(place)
        if place.exists() and place.samefile(Path.cwd()):
            raise Failure(f"{place}: this is the current folder, which init would replace; name it from outside")
    except OSError as fault:
        raise Failure(f"{place}: cannot be looked at: {fault.strerror}") from fault


def _move(draft: Path, place: Path) -> None:
    """Give the finished folder its name, unless somebody else took it meanwhile."""
    try:
        draft.rename(place)
    except OSError as fault:
        if fault.errno in _IN_USE:
            raise _taken(place) from fault
        raise


def _taken(place: Path) -> Failure:
    return Failure(f"{place}: is there already and not an empty folder; init overwrites nothing, name another one")


def _fill(draft: Path, layout: Layout, token_hex: Callable[[int], str]) -> None:
    for name, text in layout.files().items():
        _write(draft / name, text, 0o644)
    (draft / "credentials").mkdir(mode=0o700)
    for holder in layout.credentials():
        _write(draft / "credentials" / f"{holder}.token", token_hex(TOKEN_BYTES) + "\n", 0o600)
    (draft / "data").mkdir(mode=0o700)
    for name in layout.data_folders():
        (draft / "data" / name).mkdir(mode=0o700)
    members = {name: token_hex(16) for name in layout.voter_names()}
    for name, disk_id in members.items():
        identity = Identity(cluster_id=layout.cluster_id, generation=1, name=name, disk_id=disk_id, members=members)
        create_disk(draft / "data" / name, identity)
    for folder, _, _ in os.walk(draft):
        _sync_folder(Path(folder))


def _write(path: Path, text: str, mode: int) -> None:
    """Write a new file that was never open wider than its mode, and sync it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
