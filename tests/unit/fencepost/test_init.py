import itertools
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.identity import create_disk, read_identity
from cluster.outcome import Unfit
from cluster.ports import Identity
from fencepost import init
from fencepost.config import load_client, load_node, load_worker
from fencepost.faults import Failure
from fencepost.layout import Layout

CLUSTER = "6cc7afe5-594d-455f-ae1b-7a1c56751555"


def layout(voters: int = 3, workers: int = 1, hosts: dict[str, str] | None = None) -> Layout:
    return Layout(cluster_id=CLUSTER, voters=voters, workers=workers, base_port=7100, hosts=hosts or {})


def numbers() -> Callable[[int], str]:
    """Return secrets that differ, for once predictable."""
    drawn = itertools.count(1)
    return lambda length: f"{next(drawn):0{2 * length}x}"


def everything_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_what_it_makes_is_what_the_processes_read(tmp_path: Path) -> None:
    init.create(tmp_path / "c", layout(workers=2), numbers())
    nodes = [load_node(tmp_path / "c" / f"node{i}.toml") for i in (1, 2, 3)]
    workers = [load_worker(tmp_path / "c" / name) for name in ("worker.toml", "worker2.toml")]
    assert [node.name for node in nodes] == ["node1", "node2", "node3"]
    assert {node.cluster_id for node in nodes} == {CLUSTER}
    assert [str(nodes[1].listen.cluster), str(nodes[1].listen.admission), str(nodes[1].listen.management)] == [
        "127.0.0.1:7102",
        "127.0.0.1:7202",
        "127.0.0.1:7302",
    ]
    assert nodes[0].voters == {f"node{i}": f"http://127.0.0.1:{7100 + i}" for i in (1, 2, 3)}
    assert (
        workers[0].admission_urls == nodes[0].admission_urls == tuple(f"http://127.0.0.1:{7200 + i}" for i in (1, 2, 3))
    )
    tokens = {principal.name: token for principal, token in nodes[0].principals}
    assert {principal.name: principal.role for principal, _ in nodes[0].principals} == {
        "operator": "operator",
        "recovery": "recovery",
        "worker1": "worker",
        "worker2": "worker",
    }
    assert tokens == {
        "operator": load_client(tmp_path / "c" / "operator.toml").token,
        "recovery": load_client(tmp_path / "c" / "recovery.toml").token,
        "worker1": workers[0].token,
        "worker2": workers[1].token,
    }
    assert len({*tokens.values(), nodes[0].cluster_token}) == 5


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_each_voter_has_a_disk_of_its_own_in_one_cluster(tmp_path: Path, voters: int) -> None:
    init.create(tmp_path / "c", layout(voters), numbers())
    disks = [read_identity(tmp_path / "c" / "data" / f"node{i}") for i in range(1, voters + 1)]
    assert [disk.name for disk in disks] == [f"node{i}" for i in range(1, voters + 1)]
    assert all(disk.members == {each.name: each.disk_id for each in disks} for disk in disks)
    assert {(disk.cluster_id, disk.generation) for disk in disks} == {(CLUSTER, 1)}
    assert len({disk.disk_id for disk in disks}) == voters


def test_credentials_and_data_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        init.create(tmp_path / "c", layout(), numbers())
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "c" / "credentials").iterdir()}
    assert modes == dict.fromkeys(["cluster.token", "operator.token", "recovery.token", "worker1.token"], 0o600)
    assert [stat.S_IMODE((tmp_path / "c" / name).stat().st_mode) for name in ("credentials", "data")] == [0o700] * 2


def test_no_credential_stands_in_a_configuration(tmp_path: Path) -> None:
    init.create(tmp_path / "c", layout(), numbers())
    tokens = [path.read_text().strip() for path in (tmp_path / "c" / "credentials").iterdir()]
    texts = [path.read_text() for path in (tmp_path / "c").glob("*.toml")]
    assert not [token for token in tokens if any(token in text for text in texts)]


def test_a_host_is_listened_on_and_called_but_management_stays_on_loopback(tmp_path: Path) -> None:
    init.create(tmp_path / "c", layout(hosts={"node1": "10.0.0.5", "node2": "fd00::7"}), numbers())
    first, second = (load_node(tmp_path / "c" / f"node{i}.toml") for i in (1, 2))
    assert str(first.listen.cluster) == "10.0.0.5:7101"
    assert str(second.listen.admission) == "[fd00::7]:7202"
    assert {str(first.listen.management), str(second.listen.management)} == {"127.0.0.1:7301", "127.0.0.1:7302"}
    assert first.voters == second.voters
    assert first.voters["node2"] == "http://[fd00::7]:7102"
    assert first.admission_urls[0] == "http://10.0.0.5:7201"


def test_a_folder_that_holds_anything_is_left_as_it_is(tmp_path: Path) -> None:
    init.create(tmp_path / "c", layout(), numbers())
    before = everything_in(tmp_path)
    with pytest.raises(Failure, match="overwrites nothing"):
        init.create(tmp_path / "c", layout(5), numbers())
    assert everything_in(tmp_path) == before


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    init.create(tmp_path / "c", layout(), numbers())
    assert (tmp_path / "c" / "node1.toml").is_file()


def test_a_file_a_missing_parent_and_the_current_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = everything_in(tmp_path)
    for place, words in (
        (tmp_path / "file", "overwrites nothing"),
        (tmp_path / "file" / "c", "Not a directory"),
        (tmp_path / "none" / "c", "No such file or directory"),
        (Path(), "current folder"),
    ):
        with pytest.raises(Failure, match=words):
            init.create(place, layout(), numbers())
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("steps", [1, 3, 5, 7])
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_on_the_way_leaves_nothing(tmp_path: Path, steps: int, fault: BaseException) -> None:
    drawn, left = numbers(), itertools.count(steps, -1)

    def failing(length: int) -> str:
        if next(left) == 0:
            raise fault
        return drawn(length)

    with pytest.raises((Failure, KeyboardInterrupt)):
        init.create(tmp_path / "c", layout(), failing)
    assert everything_in(tmp_path) == {}


def test_a_disk_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def third_fails(data_dir: Path, identity: Identity) -> None:
        if identity.name == "node3":
            raise Unfit(f"{data_dir}: as told")
        create_disk(data_dir, identity)

    monkeypatch.setattr(init, "create_disk", third_fails)
    with pytest.raises(Unfit, match="as told"):
        init.create(tmp_path / "c", layout(), numbers())
    assert everything_in(tmp_path) == {}


def test_of_two_at_once_the_second_changes_nothing(tmp_path: Path) -> None:
    """The other one finishes after this one looked, and before it renames."""
    drawn, before = numbers(), {}

    def other_first(length: int) -> str:
        if not before:
            before.update({"begun": None})
            init.create(tmp_path / "c", layout(), drawn)
            before.update(everything_in(tmp_path / "c"))
        return drawn(length)

    with pytest.raises(Failure, match="overwrites nothing"):
        init.create(tmp_path / "c", layout(), other_first)
    before.pop("begun")
    assert everything_in(tmp_path / "c") == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_every_file_is_toml_without_a_surprise(tmp_path: Path) -> None:
    init.create(tmp_path / "c", layout(1, 0), numbers())
    found = {path.name: sorted(tomllib.loads(path.read_text())) for path in (tmp_path / "c").glob("*.toml")}
    assert found == {
        "node1.toml": ["admission", "cluster_id", "credentials", "data_dir", "listen", "name", "principal", "voters"],
        "operator.toml": ["credential", "management_urls"],
        "recovery.toml": ["credential", "management_urls"],
    }
