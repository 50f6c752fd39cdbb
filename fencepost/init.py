"""`fencepost init`: a new cluster's folder, whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cluster.identity import create_disk
from cluster.ports import Identity
from fencepost.layout import Layout
from fencepost.whole_folder import create_whole, sync_folder

TOKEN_BYTES: Final = 32


def create(folder: Path, layout: Layout, token_hex: Callable[[int], str]) -> None:
    """Create a cluster's folder: configurations, credentials (0600) and data folders with genesis identity.

    An existing empty folder is taken as well.

    Args:
        token_hex: returns so many random bytes, fit for a secret, as hex.

    Raises:
        Failure: the place is taken or cannot be written; nothing is changed then.
    """
    create_whole(folder, "init", lambda draft: _fill(draft, layout, token_hex), token_hex)


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
        sync_folder(Path(folder))


def _write(path: Path, text: str, mode: int) -> None:
    """Write a new file that was never open wider than its mode, and sync it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
