"""What must not start does not start, says why in one line, and changes nothing on disk."""

import hashlib
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.processes.cluster import ENVIRON, FENCEPOST, HANG_S, Cluster, running_cluster

pytestmark = pytest.mark.processes


def checksums(folder: Path) -> dict[str, str]:
    """Return the digest of every file but the locks, which hold nothing."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "lock")
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def refuses(cluster: Cluster, role: str, name: str) -> str:
    """Start a process that must end by itself with one clear line; return that line."""
    done = subprocess.run(
        [*FENCEPOST, role, "--config", str(cluster.dir / f"{name}.toml")],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        cwd=cluster.folder,
        env=ENVIRON,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode in {1, 2}, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_voter_with_an_empty_folder(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    data = next(p for p in cluster.dir.rglob("raft.db") if "node1" in str(p)).parent
    for path in data.iterdir():
        path.unlink()
    before = checksums(cluster.dir)
    assert str(data) in refuses(cluster, "runner", "node1")
    assert checksums(cluster.dir) == before


def test_a_voter_with_the_folder_of_another_cluster(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = Cluster(tmp_path / "a"), Cluster(tmp_path / "b")
    mine = next(p for p in one.dir.rglob("raft.db") if "node1" in str(p))
    theirs = next(p for p in two.dir.rglob("raft.db") if "node1" in str(p))
    shutil.copyfile(theirs, mine)
    before = checksums(one.dir)
    assert "cluster" in refuses(one, "runner", "node1")
    assert checksums(one.dir) == before


def test_a_port_in_use(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", cluster.base + 1))
        taken.listen()
        before = checksums(cluster.dir)
        assert str(cluster.base + 1) in refuses(cluster, "runner", "node1")
        assert checksums(cluster.dir) == before


def test_a_second_process_on_the_same_folders(tmp_path: Path) -> None:
    with running_cluster(tmp_path, voters=1) as cluster:
        assert "in use" in refuses(cluster, "runner", "node1")
        # The same folder behind other ports: only its lock is in the way.
        config = cluster.dir / "node1.toml"
        (cluster.dir / "again.toml").write_text(re.sub(r'= "127\.0\.0\.1:\d+"', '= "127.0.0.1:0"', config.read_text()))
        for role, name in (("runner", "again"), ("worker", "worker")):
            line = refuses(cluster, role, name)
            assert "another process" in line
            assert str(cluster.dir / "data") in line


def test_an_unwritable_folder(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, voters=1)
    data = next(cluster.dir.rglob("raft.db")).parent
    (data / "lock").unlink()
    (data / "lock").mkdir()  # what even root cannot open to write
    before = checksums(cluster.dir)
    assert str(data) in refuses(cluster, "runner", "node1")
    assert checksums(cluster.dir) == before


@pytest.mark.parametrize("text", ["", "nonsense", "name = 3\n", '[[schedule]]\nnamespace = "x"\n'])
def test_a_bad_config(tmp_path: Path, text: str) -> None:
    cluster = Cluster(tmp_path)
    (cluster.dir / "node1.toml").write_text(text)
    assert "node1.toml" in refuses(cluster, "runner", "node1")
