"""Ways in which a voter's raft.db goes back behind its voter's back; its side mark stays."""

import shutil
import sqlite3
from pathlib import Path
from random import Random

from cluster.log_store import LogStore
from cluster.outcome import Unfit
from tests.simulation.cluster.disk import Disk

LOG, WAL, STATE = "raft.db", "raft.db-wal", "checkpoint.db"
WAL_HEADER, FRAME_HEADER = 32, 24


def keep(disk: Disk, name: str) -> Path:
    """Copy a folder as it is now, to be put back later."""
    to = disk.folder.parent / name
    shutil.copytree(disk.folder, to, ignore=shutil.ignore_patterns("*-shm"))
    return to


def put_back(folder: Path, earlier: Path, *, wal: bool = True, state: bool = False) -> None:
    """Put an earlier raft.db back, with its WAL or without, and perhaps the checkpoint.db of then."""
    for name in (LOG, STATE) if state else (LOG,):
        for each, with_it in ((name, True), (f"{name}-wal", wal or name == STATE)):
            (folder / each).unlink(missing_ok=True)
            if with_it and (earlier / each).exists():
                shutil.copyfile(earlier / each, folder / each)


def lose_newest(folder: Path, transactions: int, *, rotten: bool) -> bool:
    """Cut the newest transactions off raft.db's WAL, or let the first of them rot; return whether there were so many."""
    path = folder / WAL
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


def goes_back(disk: Disk, random: Random) -> bool:
    """Let raft.db lose something that its mark knows of, in one of these ways; return whether it has.

    What the mark does not know of (a power loss may have taken its newest words) no voter could notice, and what leaves
    no database at all each voter does: both are left alone.
    """
    tried = keep(disk, "tried")
    lives = sorted(
        (each for each in disk.folder.parent.iterdir() if each.name.isdigit()), key=lambda path: int(path.name)
    )
    if random.random() < 0.5 or len(lives) < 3:
        lose_newest(tried, random.randint(1, 6), rotten=random.random() < 0.5)
    else:  # as an earlier life left it; where the last one left it is where this one begins
        put_back(tried, random.choice(lives[:-2]), wal=random.random() < 0.7, state=random.random() < 0.5)
    noticed = _noticed(tried)
    if noticed:
        put_back(disk.folder, tried, state=True)
    shutil.rmtree(tried)
    return noticed


def _noticed(folder: Path) -> bool:
    """Tell whether a voter would notice; SQLite looks at a copy, since it changes what it opens."""
    copy = folder.with_name("looked at")
    shutil.copytree(folder, copy)
    try:
        log = LogStore(copy / LOG)
    except Unfit:
        return False
    else:
        noticed = not log.entitled and log._unsynced and _applied(copy / STATE) >= log.first_index
        log.close()
        return noticed
    finally:
        shutil.rmtree(copy)


def _applied(path: Path) -> int:
    """Return how far a checkpoint.db has come; 1 if there is none."""
    if not path.exists():
        return 1
    db = sqlite3.connect(path)
    try:
        return int(db.execute("SELECT applied_index FROM cluster_applied").fetchone()[0])
    except sqlite3.DatabaseError:
        return 1
    finally:
        db.close()
