"""C72: each step durable before the next; whoever dies between two of them starts in the old state or the new one."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from cluster import durable, snapshot_copy
from cluster.checkpoint_store import CheckpointStore
from cluster.frames import raise_to
from cluster.identity import create_disk
from cluster.installing import install_steps, settle_pair
from cluster.log_mirror import Entry
from cluster.log_store import LogStore
from cluster.outcome import FailStop, Unfit
from cluster.ports import Identity
from cluster.snapshot_copy import Copy, Unsound, check_copy, make_copy
from tests.simulation.cluster.machine import Appends, appended
from tests.unit.cluster.fakes import identity

Stores = tuple[LogStore, CheckpointStore]
STEPS = 5


def opened(home: Path) -> Stores:
    log = LogStore(home / "raft.db")
    return log, CheckpointStore(home / "checkpoint.db", identity(), Appends(), log.first_index)


def voter(home: Path, applied: int, last: int, term: int = 1, who: Identity | None = None) -> Stores:
    """Make a voter whose log ends at `last` and who has applied up to `applied`."""
    create_disk(home, who or identity())
    log = LogStore(home / "raft.db")
    checkpoint = CheckpointStore(home / "checkpoint.db", who or identity(), Appends())
    log.set_term(3, None)
    for index in range(2, last + 1):
        log.append(b"\x00op%d" % index, index, 1 if index <= applied else term)
    log.set_commit(applied)
    log.sync()
    for entry in log.after(1, applied - 1):
        checkpoint.apply(entry)
    checkpoint.commit()
    return log, checkpoint


def close(stores: Stores) -> None:
    for store in stores:
        store.close()


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A leader's copy of everything up to 30, all of term 1."""
    stores = voter(tmp_path / "leader", 30, 35)
    made = make_copy(tmp_path / "leader" / "checkpoint.db", tmp_path / "copy")
    close(stores)
    return made


def installing(home: Path, copy: Copy, stores: Stores, steps: int = STEPS) -> None:
    own = Copy(home / snapshot_copy.INCOMING, copy.index, copy.term, copy.total, copy.digest)
    shutil.copyfile(copy.path, own.path)
    check_copy(own, identity(), 1)
    assert stores[1].finish_wal()
    for step in install_steps(*stores, own)[:steps]:
        step()


def crashed(home: Path) -> Path:
    """What kill -9 leaves: all files as they are."""
    return Path(shutil.copytree(home, home.with_name("after")))


def ops(first: int, last: int) -> list[str]:
    return [f"op{index}" for index in range(first, last + 1)]


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_c72_a_crash_after_each_step_leaves_the_old_state_or_the_new(tmp_path: Path, copy: Copy, steps: int) -> None:
    stores = voter(tmp_path / "late", 5, 8)
    installing(tmp_path / "late", copy, stores, steps)
    after = crashed(tmp_path / "late")
    close(stores)
    log, checkpoint = opened(after)
    settle_pair(log, checkpoint)
    old = ([1, *range(2, 9)], 5, 5, ops(2, 5))
    new = ([30], 30, 30, ops(2, 30))
    state = (
        [entry.index for entry in log.entries],
        log.commit_index,
        checkpoint.applied_index,
        checkpoint.read(appended),
    )
    assert state == (new if steps >= 3 else old)
    assert (log.term, log.noted_install()) == (3, None)
    log.append(b"\x00next", log.last_index + 1, 3)
    log.sync()
    close((log, checkpoint))
    log, checkpoint = opened(after)
    settle_pair(log, checkpoint)
    assert log.entries[-1].command == b"\x00next"
    close((log, checkpoint))


def test_c72_each_step_is_on_disk_before_the_next_begins(
    tmp_path: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, checkpoint = voter(tmp_path / "late", 5, 8)
    done: list[str] = []
    sync_file, sync_folder, replace, unlink = durable.sync_file, durable.sync_folder, Path.replace, Path.unlink

    def noted(what: str, act: object) -> object:
        def call(*args: object, **kwargs: object) -> object:
            if what != "unlink" or str(args[0]).endswith("-wal"):
                done.append(what)
            return act(*args, **kwargs)

        return call

    monkeypatch.setattr(durable, "sync_file", noted("fsync file", sync_file))
    monkeypatch.setattr(durable, "sync_folder", noted("fsync folder", sync_folder))
    monkeypatch.setattr(Path, "replace", noted("rename", replace))
    monkeypatch.setattr(Path, "unlink", noted("unlink", unlink))
    monkeypatch.setattr(log, "start_at", noted("cut log", log.start_at))
    installing(tmp_path / "late", copy, (log, checkpoint))
    assert done == ["fsync file", "unlink", "fsync folder", "rename", "fsync folder", "cut log"]
    close((log, checkpoint))


def test_readers_and_the_machine_survive(tmp_path: Path, copy: Copy) -> None:
    log, checkpoint = voter(tmp_path / "late", 5, 8)
    installing(tmp_path / "late", copy, (log, checkpoint))
    assert checkpoint.read(appended) == ops(2, 30)
    assert (checkpoint.durable_index, log.synced_index) == (30, 30)
    assert checkpoint.apply(Entry(b"\x00op31", 31, 1)) == [30, "op31"]
    checkpoint.commit()
    assert checkpoint.read(appended) == ops(2, 31)
    close((log, checkpoint))


@pytest.mark.parametrize(("term", "kept"), [(1, [30, 31, 32, 33]), (2, [30])])
def test_what_follows_stays_if_the_log_matches_the_copy_and_only_then(
    tmp_path: Path, copy: Copy, term: int, kept: list[int]
) -> None:
    stores = voter(tmp_path / "late", 5, 33, term)
    installing(tmp_path / "late", copy, stores)
    for log in (stores[0], LogStore(tmp_path / "late" / "raft.db")):
        assert [entry.index for entry in log.entries] == kept
        assert (log.first_index, log.entry(30).term, log.commit_index, log.synced_index) == (30, 1, 30, kept[-1])
        log.close()
    stores[1].close()


def test_the_log_refuses_to_go_back_or_to_contradict_itself(tmp_path: Path) -> None:
    log, checkpoint = voter(tmp_path / "late", 20, 25)
    log.compact_to(10)
    for index, term in ((9, 1), (15, 2), (30, 4)):
        with pytest.raises(FailStop, match="contradicts"):
            log.start_at(index, term)
    close((log, checkpoint))


def test_a_checkpoint_ahead_of_its_log_without_a_note_is_anothers(tmp_path: Path, copy: Copy) -> None:
    log, checkpoint = voter(tmp_path / "late", 5, 8)
    checkpoint.close()
    shutil.copyfile(copy.path, tmp_path / "late" / "checkpoint.db")
    checkpoint = CheckpointStore(tmp_path / "late" / "checkpoint.db", identity(), Appends())
    with pytest.raises(Unfit, match="does not hold"):
        settle_pair(log, checkpoint)
    close((log, checkpoint))


def test_a_copy_is_of_committed_state_and_whole_in_one_file(tmp_path: Path) -> None:
    log, checkpoint = voter(tmp_path / "leader", 30, 35)
    checkpoint.apply(log.entry(31))  # not committed
    made = make_copy(tmp_path / "leader" / "checkpoint.db", tmp_path / "copy")
    assert (made.index, made.term, made.total) == (30, 1, made.path.stat().st_size)
    check_copy(made, identity(), 1)
    assert not list(tmp_path.glob("copy-*"))
    close((log, checkpoint))


def test_a_copy_that_is_not_what_was_announced_is_refused(tmp_path: Path, copy: Copy) -> None:
    def announced(**changes: object) -> Copy:
        fields = {"path": copy.path, "index": 30, "term": 1, "total": copy.total, "digest": copy.digest}
        return Copy(**{**fields, **changes})

    for wrong in (
        announced(index=31),
        announced(term=2),
        announced(total=copy.total - 1),
        announced(digest=bytes(32)),
    ):
        with pytest.raises(Unsound):
            check_copy(wrong, identity(), 1)
    check_copy(copy, identity(), 2)
    with pytest.raises(Unsound, match="gone on to version 1"):
        check_copy(copy, identity(), 0)
    with pytest.raises(Unsound, match="another cluster"):
        check_copy(copy, identity(cluster_id="other"), 1)
    noise = tmp_path / "noise"
    noise.write_bytes(b"noise" * 1000)
    with pytest.raises(Exception, match="not a database"):
        check_copy(announced(path=noise, total=5000, digest=snapshot_copy._sha256(noise)), identity(), 1)


def test_an_installed_copy_brings_digest_term_and_cluster_version_with_it(tmp_path: Path) -> None:
    log, checkpoint = voter(tmp_path / "leader", 30, 35)
    log.append(raise_to(2), 36, 3)
    machine = checkpoint._machine = Appends()
    machine.version = 2
    for entry in log.after(30, 6):
        checkpoint.apply(entry)
    checkpoint.commit()
    made = make_copy(tmp_path / "leader" / "checkpoint.db", tmp_path / "copy")
    with pytest.raises(Unsound, match="gone on to version 2, this program knows 1"):
        check_copy(made, identity(), 1)
    check_copy(made, identity(), 2)
    behind = voter(tmp_path / "behind", 20, 25)
    behind[1]._machine = machine
    behind[1].marks.append((16, b"x" * 32))
    own = Copy(tmp_path / "behind" / snapshot_copy.INCOMING, made.index, made.term, made.total, made.digest)
    shutil.copyfile(made.path, own.path)
    assert behind[1].finish_wal()
    for step in install_steps(*behind, own):
        step()
    for what in ("applied_index", "applied_term", "digest", "cluster_version"):
        assert getattr(behind[1], what) == getattr(checkpoint, what), what
    assert (checkpoint.applied_term, checkpoint.cluster_version) == (3, 2)
    assert not behind[1].marks, "it would say of its old state what it does not have any more"
    close(behind)
    close((log, checkpoint))


# ---- a log that went back, and a checkpoint that did not


def went_back(home: Path, term: int = 1) -> Stores:
    """Make a voter that has applied up to 20, and put its raft.db back to an earlier one that ends at 8."""
    log, checkpoint = stores = voter(home, 5, 8, term)
    log.finish_wal()
    shutil.copyfile(home / "raft.db", home / "earlier")
    log.truncate_from(6)
    for index in range(6, 22):
        log.append(b"\x00op%d" % index, index, 3)
    log.set_commit(20)
    log.sync()
    for entry in log.after(5, 15):
        checkpoint.apply(entry)
    checkpoint.commit()
    close(stores)
    (home / "raft.db-wal").unlink(missing_ok=True)
    shutil.copyfile(home / "earlier", home / "raft.db")
    return opened(home)


@pytest.mark.parametrize("term", [1, 3])
def test_a_log_that_went_back_starts_at_what_its_checkpoint_holds(tmp_path: Path, term: int) -> None:
    for _ in range(2):  # once more = after a clean end
        log, checkpoint = went_back(tmp_path, term) if not tmp_path.joinpath("raft.db").exists() else opened(tmp_path)
        settle_pair(log, checkpoint)
        assert [(entry.index, entry.term) for entry in log.entries] == [(20, 3)]
        assert (log.term, log.commit_index, log.synced_index, log.floor) == (3, 20, 20, (3, 21))
        assert checkpoint.read(appended) == ops(2, 20)
        close((log, checkpoint))


def test_a_start_that_dies_before_the_log_starts_there_does_so_next_time(tmp_path: Path) -> None:
    log, checkpoint = went_back(tmp_path)
    log.settle()
    close((log, checkpoint))
    log, checkpoint = opened(tmp_path)
    settle_pair(log, checkpoint)
    assert (log.first_index, log.last_index, log.entitled) == (20, 20, False)
    close((log, checkpoint))


def test_what_the_checkpoint_holds_is_on_disk_before_the_log_starts_there(tmp_path: Path) -> None:
    log, checkpoint = went_back(tmp_path)
    checkpoint.apply(Entry(b"\x00more", 21, 3))  # in the WAL only
    checkpoint.commit()
    reader = sqlite3.connect(tmp_path / "checkpoint.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM appended").fetchall()
    checkpoint.apply(Entry(b"\x00more", 22, 3))
    checkpoint.commit()
    with pytest.raises(Unfit, match="another process reads"):
        settle_pair(log, checkpoint)
    reader.close()
    close((log, checkpoint))
    log, checkpoint = opened(tmp_path)
    assert (log.last_index, log.floor) == (8, (3, 21)), "nothing was changed"
    settle_pair(log, checkpoint)
    assert (log.first_index, checkpoint.durable_index) == (22, 22)
    close((log, checkpoint))


def test_a_checkpoint_that_contradicts_what_is_committed_in_the_log_is_anothers(tmp_path: Path) -> None:
    log, checkpoint = went_back(tmp_path)
    log.commit_index = 8
    checkpoint.applied_index, checkpoint.applied_term = 8, 3  # the log has term 1 there
    with pytest.raises(Unfit, match="does not hold"):
        settle_pair(log, checkpoint)
    checkpoint.applied_index, checkpoint.applied_term = 20, 4  # later than any term of this voter
    with pytest.raises(Unfit, match="does not hold"):
        settle_pair(log, checkpoint)
    close((log, checkpoint))
