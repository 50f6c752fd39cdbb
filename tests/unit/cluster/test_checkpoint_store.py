import sqlite3
from pathlib import Path

import pytest

from cluster.checkpoint_store import CheckpointStore
from cluster.frames import NO_OP, raise_to
from cluster.log_mirror import Entry
from cluster.outcome import FailStop, Unfit
from tests.simulation.cluster.machine import Appends, appended
from tests.unit.cluster.fakes import identity


def opened(path: Path, machine: Appends | None = None, cluster_id: str = identity().cluster_id) -> CheckpointStore:
    return CheckpointStore(path, identity(cluster_id=cluster_id), machine or Appends())


def entry(index: int, op: str = "work", term: int = 1) -> Entry:
    return Entry(b"\x00" + op.encode(), index, term)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.db"


def test_applied_index_digest_and_rows_are_committed_together(path: Path) -> None:
    store = opened(path)
    assert store.apply(entry(2, "a")) == [1, "a"]
    store.commit()
    digest = store.digest
    store.apply(entry(3, "lost"))
    store.close()
    store = opened(path)
    assert (store.applied_index, store.applied_term, store.digest) == (2, 1, digest)
    assert store.read(appended) == ["a"]
    store.close()


def test_a_commit_needs_no_fsync(path: Path) -> None:
    store = opened(path)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (1,)
    store.close()


def test_readers_see_committed_ticks_only_and_cannot_write(path: Path) -> None:
    store = opened(path)
    store.apply(entry(2, "a"))
    assert store.read(appended) == []
    store.commit()
    assert store.read(appended) == ["a"]
    with pytest.raises(sqlite3.OperationalError):
        store.read(lambda db: db.execute("DELETE FROM appended"))
    assert store.read(appended) == ["a"]
    store.close()


def test_the_digest_tells_any_difference(tmp_path: Path) -> None:
    def digest(name: str, *entries: Entry) -> bytes:
        store = opened(tmp_path / name)
        for each in entries:
            store.apply(each)
        store.close()
        return store.digest

    same = digest("a", entry(2), Entry(NO_OP, 3, 1))
    assert digest("b", entry(2), Entry(NO_OP, 3, 1)) == same
    assert digest("c", entry(2, "other"), Entry(NO_OP, 3, 1)) != same
    assert digest("d", entry(2), Entry(NO_OP, 3, 2)) != same


def test_only_the_next_entry_is_applied(path: Path) -> None:
    store = opened(path)
    for index in (1, 3):
        with pytest.raises(FailStop):
            store.apply(entry(index))
    store.close()


def test_a_machine_that_raises_or_answers_nonsense_stops_the_voter(path: Path) -> None:
    class Broken(Appends):
        def apply(self, db: sqlite3.Connection, command: bytes) -> object:
            super().apply(db, command)
            if command == b"raise":
                raise ValueError("no such schedule")
            return object()

    store = opened(path, Broken())
    with pytest.raises(FailStop, match="applying entry 2: ValueError"):
        store.apply(entry(2, "raise"))
    with pytest.raises(FailStop, match="applying entry 2: TypeError"):
        store.apply(entry(2, "nonsense"))
    store.close()
    store = opened(path)
    assert (store.applied_index, store.read(appended)) == (1, [])
    store.close()


def test_a_full_disk_stops_the_voter(path: Path) -> None:
    store = opened(path)
    (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(FailStop):
        store.apply(entry(2, "x" * 100_000))
    store.close()


def test_a_file_whose_making_was_cut_short_is_made_again(path: Path) -> None:
    sqlite3.connect(path).close()
    path.touch()
    store = opened(path)
    assert store.applied_index == 1
    store.close()


def test_files_of_others_are_unfit(path: Path) -> None:
    opened(path).close()
    with pytest.raises(Unfit, match="another cluster"):
        opened(path, cluster_id="other")
    db = sqlite3.connect(path)
    db.execute("UPDATE cluster_applied SET format = 1")
    db.commit()
    db.close()
    with pytest.raises(Unfit, match="another version"):
        opened(path)
    path.write_bytes(b"noise" * 1000)
    with pytest.raises(Unfit):
        opened(path)


class Later(Appends):
    version = 3


def test_the_cluster_version_is_kept_never_falls_and_keeps_older_programs_out(path: Path) -> None:
    store = opened(path, Later())
    assert (store.cluster_version, store.supported_version) == (1, 3)
    results = [store.apply(Entry(raise_to(version), index, 1)) for index, version in ((2, 3), (3, 2))]
    assert results == [3, 3]
    store.commit()
    store.close()
    again = opened(path, Later())
    assert again.cluster_version == 3
    with pytest.raises(FailStop, match="goes on to version 4"):
        again.apply(Entry(raise_to(4), 4, 1))
    again.close()
    with pytest.raises(Unfit, match="gone on to version 3, this program knows 1"):
        opened(path)
