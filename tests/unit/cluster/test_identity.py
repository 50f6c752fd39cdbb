import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.identity import FolderLock, check_identity, create_disk, read_identity
from cluster.outcome import Unfit
from tests.unit.cluster.fakes import CLUSTER, identity


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_disk_remembers_who_it_is(tmp_path: Path) -> None:
    create_disk(tmp_path / "new" / "node1", identity())
    assert read_identity(tmp_path / "new" / "node1") == identity()
    assert sorted(contents(tmp_path / "new" / "node1")) == ["lock", "raft.db", "raft.mark"]


def test_looking_changes_nothing(tmp_path: Path) -> None:
    create_disk(tmp_path, identity())
    before = contents(tmp_path)
    read_identity(tmp_path)
    assert contents(tmp_path) == before


def crashed(tmp_path: Path, *statements: str) -> Path:
    """Return a folder as kill -9 leaves it: what the statements wrote is in the WAL only."""
    create_disk(tmp_path / "live", identity())
    with closing(sqlite3.connect(tmp_path / "live" / "raft.db", isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        for statement in statements:
            db.execute(statement)
        shutil.copytree(tmp_path / "live", tmp_path / "left")
    assert (tmp_path / "left" / "raft.db-wal").stat().st_size > 0
    return tmp_path / "left"


def test_looking_after_a_crash_changes_nothing_either(tmp_path: Path) -> None:
    left = crashed(tmp_path, "UPDATE standing SET term = 7")
    before = contents(left)
    assert read_identity(left) == identity()
    assert contents(left) == before


def test_what_only_the_wal_completes_is_read_with_it(tmp_path: Path) -> None:
    left = crashed(tmp_path, "VACUUM")  # every page is in the WAL
    raft = left / "raft.db"
    raft.write_bytes(raft.read_bytes()[:4096] + bytes(raft.stat().st_size - 4096))
    before = contents(left)
    assert read_identity(left) == identity()
    assert contents(left) == before


def test_genesis_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "keep").write_text("me")
    with pytest.raises(Unfit, match="not empty"):
        create_disk(tmp_path, identity())
    assert contents(tmp_path) == {"keep": b"me"}


def test_genesis_of_a_contradiction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unfit):
        create_disk(tmp_path / "disk", replace(identity(), disk_id="f" * 32))
    assert not (tmp_path / "disk").exists()


def test_a_folder_without_a_disk_is_unfit_and_stays_as_it_was(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(Unfit, match=r"no raft\.db"):
            read_identity(folder)
    assert contents(tmp_path) == {}


def test_a_newer_format_is_unfit(tmp_path: Path) -> None:
    create_disk(tmp_path, identity())
    db = sqlite3.connect(tmp_path / "raft.db")
    db.execute("UPDATE identity SET format = 3")
    db.commit()
    with pytest.raises(Unfit, match="format 3"):  # the WAL still holds the change: it is read too
        read_identity(tmp_path)
    db.close()
    with pytest.raises(Unfit, match="format 3"):
        read_identity(tmp_path)


def test_noise_is_unfit(tmp_path: Path) -> None:
    (tmp_path / "raft.db").write_bytes(b"noise" * 1000)
    with pytest.raises(Unfit):
        read_identity(tmp_path)


@pytest.mark.parametrize(
    ("name", "cluster_id", "members", "word"),
    [
        ("node1", CLUSTER, ["node3", "node2", "node1"], None),
        ("node1", "other", ["node1", "node2", "node3"], "cluster"),
        ("node2", CLUSTER, ["node1", "node2", "node3"], "voter"),
        ("node1", CLUSTER, ["node1", "node2"], "members"),
        ("node1", CLUSTER, ["node1", "node2", "node4"], "members"),
    ],
)
def test_the_configuration_must_agree(name: str, cluster_id: str, members: list[str], word: str | None) -> None:
    if word is None:
        check_identity(identity(), Path("d"), name=name, cluster_id=cluster_id, members=members)
        return
    with pytest.raises(Unfit, match=word):
        check_identity(identity(), Path("d"), name=name, cluster_id=cluster_id, members=members)


def test_a_folder_has_one_user_at_a_time(tmp_path: Path) -> None:
    lock = FolderLock.take(tmp_path)
    with pytest.raises(Unfit, match="another process"):
        FolderLock.take(tmp_path)
    lock.release()
    lock.release()
    FolderLock.take(tmp_path).release()


def test_a_folder_that_cannot_be_locked_is_unfit(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(Unfit):
        FolderLock.take(tmp_path)
