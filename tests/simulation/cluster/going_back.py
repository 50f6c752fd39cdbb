"""Ways in which a voter's raft.db goes back behind its voter's back; its side mark stays."""

import shutil
from pathlib import Path

from tests.simulation.cluster.disk import Disk

LOG, WAL, STATE = "raft.db", "raft.db-wal", "checkpoint.db"
WAL_HEADER, FRAME_HEADER = 32, 24


def keep(disk: Disk, name: str) -> Path:
    """Copy a folder as it is now, to be put back later."""
    to = disk.folder.parent / name
    shutil.copytree(disk.folder, to, ignore=shutil.ignore_patterns("*-shm"))
    return to


def put_back(disk: Disk, earlier: Path, *, wal: bool = True, state: bool = False) -> None:
    """Put an earlier raft.db back, with its WAL or without, and perhaps the checkpoint.db of then."""
    for name in (LOG, STATE) if state else (LOG,):
        for each, with_it in ((name, True), (f"{name}-wal", wal or name == STATE)):
            (disk.folder / each).unlink(missing_ok=True)
            if with_it and (earlier / each).exists():
                shutil.copyfile(earlier / each, disk.folder / each)


def lose_newest(disk: Disk, transactions: int, *, rotten: bool) -> bool:
    """Cut the newest transactions off raft.db's WAL, or let the first of them rot; return whether there were so many."""
    path = disk.folder / WAL
    content = bytearray(path.read_bytes()) if path.exists() else bytearray()
    size = FRAME_HEADER + int.from_bytes(content[8:12], "big")
    frames = range(WAL_HEADER, len(content) - size + 1, size) if content else range(0)
    ends = [at for at in frames if content[at + 4 : at + 8] != bytes(4) and content[at + 8 : at + 16] == content[16:24]]
    if len(ends) < transactions:
        return False
    first = 0 if len(ends) == transactions else frames.index(ends[-transactions - 1]) + 1
    place = WAL_HEADER + first * size
    if rotten:
        content[place + FRAME_HEADER + 9] ^= 1
    else:
        del content[place:]
    path.write_bytes(content)
    return True
