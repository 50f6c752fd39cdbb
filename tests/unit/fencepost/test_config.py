import shutil
from pathlib import Path

import pytest

from cluster.outcome import Unfit
from fencepost import init
from fencepost.config import load_client, load_node, load_worker
from fencepost.faults import Mistake
from tests.unit.fencepost.test_init import layout, numbers


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "c"
    init.create(folder, layout(), numbers())
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "c"))


def changed(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def test_paths_are_relative_to_the_file_and_absolute_ones_stay(folder: Path, tmp_path: Path) -> None:
    assert load_node(folder / "node1.toml").data_dir == folder / "data" / "node1"
    elsewhere = changed(folder / "node1.toml", '"data/node1"', f'"{tmp_path}/elsewhere"')
    assert load_node(elsewhere).data_dir == tmp_path / "elsewhere"


def test_principals_of_some_namespaces_and_pools(folder: Path) -> None:
    path = changed(folder / "node1.toml", 'role = "operator"', 'role = "operator"\nnamespaces = ["demo"]')
    principals = {principal.name: principal for principal, _ in load_node(path).principals}
    assert principals["operator"].namespaces == frozenset({"demo"})
    assert principals["worker1"].pools == frozenset({"default"})
    assert principals["recovery"].namespaces is None


def test_timing_reaches_the_part_that_keeps_it(folder: Path) -> None:
    with (folder / "node1.toml").open("a") as file:
        file.write("[timing]\nraft_min_s = 0.15\nheartbeat_s = 0.02\ncontact_s = 7\n")
    with (folder / "worker.toml").open("a") as file:
        file.write("[timing]\ndrain_s = 1\n")
    node = load_node(folder / "node1.toml")
    assert (node.raft.raft_min_s, node.raft.heartbeat_s, node.raft.raft_max_s) == (0.15, 0.02, 0.6)
    assert (node.timing.contact_s, node.timing.claim_s) == (7, 15.0)
    assert load_worker(folder / "worker.toml").timing.drain_s == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "node1"', 'name = "Node1"', ':1: "Node1" is not a name'),
        ('name = "node1"', 'name = "node9"', ':1: name = "node9" is none of [voters]: node1, node2, node3'),
        ('name = "node1"', 'nam = "node1"', ':1: unknown key "nam"; did you mean "name"?'),
        ("6cc7afe5", "6CC7AFE5", ":2: cluster_id = "),
        ('data_dir = "data/node1"', 'data_dir = ""', ":3: data_dir is not a path"),
        ('"127.0.0.1:7101"', '"127.0.0.1"', ":6: listen.cluster: an address to listen on is"),
        ('management = "127.0.0.1:', 'management = "0.0.0.0:', ":8: listen.management must be a loopback address"),
        ('"http://127.0.0.1:7102"', '"http://user:marker@h:1"', ":12: voters.node2: an address to call is"),
        ("[voters]\n", '[voters]\n"Node 4" = "http://h:1"\n', ':11: "Node 4" is not a name'),
        ('urls = ["http', 'urls = []\n#["http', ":16: urls is empty"),
        ('role = "operator"', 'role = "cluster"', ':23: role = "cluster"; right would be: operator, recovery, worker'),
        ('role = "operator"', 'role = "operator"\npools = ["a"]', ":24: principal operator: only a worker has pools"),
        ('name = "recovery"', 'name = "operator"', ":27: two principals are named operator"),
        ('"credentials/recovery.token"', '"credentials/operator.token"', ":29: the credential of recovery "),
        ('"credentials/operator.token"', '"credentials/cluster.token"', ":24: the credential of operator "),
        (
            "[listen]",
            "[timing]\ncontct_s = 3\n[listen]",
            ':6: unknown key "contct_s" in [timing]; did you mean "contact_s"?',
        ),
        ("[listen]", "[timing]\ncontact_s = 0\n[listen]", ":6: timing.contact_s is a number of seconds"),
        ("[listen]", "[timing]\ncontact_s = nan\n[listen]", ":6: timing.contact_s is a number of seconds"),
        ("[listen]", '[timing]\ncontact_s = "3s"\n[listen]', ':5: "timing": expected a number, got text'),
        (
            "[listen]",
            "[timing]\nraft_min_s = 0.9\n[listen]",
            ":5: [timing] must hold heartbeat_s < raft_min_s < raft_max_s",
        ),
    ],
)
def test_a_node_file_that_cannot_be_meant_so(folder: Path, old: str, new: str, words: str) -> None:
    path = changed(folder / "node1.toml", old, new)
    with pytest.raises(Mistake) as caught:
        load_node(path)
    text = str(caught.value)
    assert text.removeprefix(str(path)).startswith(words), text
    assert "marker" not in text
    assert text.isprintable()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('["default"]', "[]", ":2: pools is empty"),
        ('["default"]', str(["a"] * 101), ":2: pools names 101; a worker serves at most 100"),
        ('["default"]', '["Default"]', ':2: "Default" is not a name'),
        ("slots = 8", "slots = 0", ":3: slots = 0; it is a number from 1 to 1000"),
        ("slots = 8", 'slots = "8"', ':3: "slots": expected a whole number, got text'),
        ("credential =", "#", ': "credential" is missing'),
        ("slots = 8", "slots = 8\ntiming.poll_wait_s = 6", ":4: timing.poll_wait_s is at most 5"),
        ("slots = 8", "slots = 8\ntiming.contact_s = 6", ':4: unknown key "contact_s" in [timing]; '),
    ],
)
def test_a_worker_file_that_cannot_be_meant_so(folder: Path, old: str, new: str, words: str) -> None:
    path = changed(folder / "worker.toml", old, new)
    with pytest.raises(Mistake) as caught:
        load_worker(path)
    assert str(caught.value).removeprefix(str(path)).startswith(words), caught.value


def test_a_credential_that_is_missing_empty_or_open_to_others_is_refused_by_its_file_name(folder: Path) -> None:
    token = folder / "credentials" / "operator.token"
    secret = token.read_text().strip()
    for spoil in (lambda: token.chmod(0o640), lambda: token.write_text(""), token.unlink):
        spoil()
        with pytest.raises(Unfit, match=r"operator\.token") as caught:
            load_client(folder / "operator.toml")
        assert secret not in str(caught.value)


def test_no_token_in_a_repr(folder: Path) -> None:
    configs = [
        load_node(folder / "node1.toml"),
        load_worker(folder / "worker.toml"),
        load_client(folder / "operator.toml"),
    ]
    tokens = [path.read_text().strip() for path in (folder / "credentials").iterdir()]
    assert not [token for token in tokens if token in repr(configs)]
