from pathlib import Path

import pytest

from cluster.identity import read_identity
from fencepost.main import main


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    assert main(["init", str(tmp_path / "c"), "--base-port", "7300"]) == 0
    return tmp_path / "c"


def lose(cluster: Path, name: str) -> Path:
    data = cluster / "data" / name
    for file in data.iterdir():
        file.unlink()
    data.rmdir()
    return data


def test_a_prepared_folder_is_of_the_voter_but_knows_no_other_disk(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_identity(cluster / "data" / "node3")
    data = lose(cluster, "node3")
    capsys.readouterr()
    assert main(["voter", "prepare", "--config", str(cluster / "node3.toml")]) == 0
    identity, said = read_identity(data), capsys.readouterr().out
    assert (identity.cluster_id, identity.generation, identity.name) == (before.cluster_id, 1, "node3")
    assert identity.disk_id != before.disk_id
    assert dict(identity.members) == {"node1": "", "node2": "", "node3": identity.disk_id}
    assert f"fencepost runner --config {cluster / 'node3.toml'}" in said
    assert f"fencepost voter replace node3 --disk {identity.disk_id}" in said
    assert data.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in (cluster / "data").iterdir()) == ["node1", "node2", "node3", "worker1"]


def test_an_empty_folder_is_taken_and_one_that_holds_anything_is_left_as_it_is(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lose(cluster, "node2").mkdir()
    assert main(["voter", "prepare", "--config", str(cluster / "node2.toml")]) == 0
    made = read_identity(cluster / "data" / "node2")
    capsys.readouterr()
    assert main(["voter", "prepare", "--config", str(cluster / "node2.toml")]) == 1
    assert "prepare overwrites nothing" in capsys.readouterr().err
    assert read_identity(cluster / "data" / "node2") == made


def test_a_folder_that_cannot_be_filled_is_not_there(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = lose(cluster, "node3")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fencepost.prepare.create_disk", full)
    assert main(["voter", "prepare", "--config", str(cluster / "node3.toml")]) == 1
    assert "No space left" in capsys.readouterr().err
    assert not data.exists()
    assert not [each for each in data.parent.iterdir() if "prepare" in each.name]


def test_two_prepared_disks_are_never_the_same(cluster: Path) -> None:
    seen = set()
    for name in ("node1", "node2"):
        lose(cluster, name)
        assert main(["voter", "prepare", "--config", str(cluster / f"{name}.toml")]) == 0
        seen.add(read_identity(cluster / "data" / name).disk_id)
    assert len(seen) == 2
