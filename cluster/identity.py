"""Who a disk is: written once at genesis, compared at every start before anything is opened to write."""

import fcntl
import os
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Final, Self

from cluster import durable, log_tables
from cluster.database import unchanged, unusable
from cluster.outcome import Unfit
from cluster.ports import Identity

LOCK_NAME: Final = "lock"


def create_disk(data_dir: Path, identity: Identity) -> None:
    """Write a voter's folder at genesis: raft.db with its identity, term 0 and the initial entry.

    The file appears under its name only when it is whole and on disk, and its side mark too.

    Args:
        data_dir: made when it is missing; nothing may be in it.
        identity: names this voter among its members, with the same disk.

    Raises:
        Unfit: anything is in the folder, the identity contradicts itself, or the folder cannot be written.
    """
    if identity.members.get(identity.name) != identity.disk_id:
        raise Unfit(f"{identity.name} is not among the members with its own disk identity; run `fencepost init` again")
    path = data_dir / log_tables.FILE_NAME
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if any(data_dir.iterdir()):
            raise Unfit(f"{data_dir}: the folder is not empty; name a new one")
        fresh = path.with_name(path.name + ".new")
        log_tables.create(fresh, identity)
        fresh.rename(path)
        (data_dir / LOCK_NAME).touch()
        durable.sync_folder(data_dir)
    except OSError as error:
        raise unusable(path, error) from error


def joining(*, cluster_id: str, name: str, disk_id: str, members: Collection[str], generation: int = 1) -> Identity:
    """Return the identity of a disk that is to replace a voter's lost one: it was not there at genesis.

    Args:
        name: the voter, one of the members.
        disk_id: drawn for this disk and never used before.
        members: all voters' names; whose disks they have now is learned from them.
    """
    disks = {member: disk_id if member == name else "" for member in members}
    return Identity(cluster_id=cluster_id, generation=generation, name=name, disk_id=disk_id, members=disks)


def require_disk(data_dir: Path) -> None:
    """Check that there is a voter's disk in this folder, touching nothing.

    Raises:
        Unfit: there is none.
    """
    if not (data_dir / log_tables.FILE_NAME).is_file():
        raise Unfit(f"{data_dir}: no raft.db here, so this is no voter's folder; make one with `fencepost init`")


def read_identity(data_dir: Path) -> Identity:
    """Return who the disk in this folder is, changing nothing in it.

    Raises:
        Unfit: there is no voter's disk here, or it cannot be read, or its format is newer than this program's.
    """
    require_disk(data_dir)
    path = data_dir / log_tables.FILE_NAME
    try:
        with unchanged(path) as db:
            row = db.execute("SELECT format, cluster_id, generation, name, disk_id FROM identity").fetchone()
            members = dict(db.execute("SELECT name, disk_id FROM member ORDER BY name"))
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if row is None or row[0] != log_tables.FORMAT:
        raise Unfit(
            f"{path}: format {row and row[0]}, this program knows {log_tables.FORMAT}; start the version that wrote it"
        )
    return Identity(cluster_id=row[1], generation=row[2], name=row[3], disk_id=row[4], members=members)


def check_identity(identity: Identity, data_dir: Path, *, name: str, cluster_id: str, members: Collection[str]) -> None:
    """Compare what the disk says with what the configuration says.

    Raises:
        Unfit: they differ; the line says in what.
    """
    for what, on_disk, configured in (
        ("cluster", identity.cluster_id, cluster_id),
        ("voter", identity.name, name),
        ("members", ", ".join(sorted(identity.members)), ", ".join(sorted(members))),
    ):
        if on_disk != configured:
            raise Unfit(
                f"{data_dir}: its {what} is {on_disk}, the configuration says {configured}; correct one of them"
            )


class FolderLock:
    """An exclusive lock on a data folder, held until `release()` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, data_dir: Path) -> Self:
        """Lock the folder.

        Raises:
            Unfit: another process holds it, or the folder cannot be written.
        """
        path = data_dir / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise unusable(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise Unfit(f"{data_dir}: another process uses this folder; stop it first") from error
        return cls(descriptor)

    def release(self) -> None:
        """Give the folder up. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
