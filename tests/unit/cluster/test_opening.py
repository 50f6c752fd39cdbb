"""A folder that cannot be used is left as it was found, also as a crash left it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from cluster.identity import create_disk
from cluster.node import Node
from cluster.outcome import Unfit
from tests.unit.cluster.fakes import CLUSTER, identity
from tests.unit.cluster.test_node import leads, open_node

OTHER = "99999999-2222-4333-8444-555555555555"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def left_by_a_crash(home: Path, cluster_id: str = CLUSTER) -> Path:
    """Return a voter's folder as kill -9 leaves it: its work is in the WALs."""
    create_disk(home / "live", identity("node1", 1, cluster_id))
    node = open_node(home / "live", cluster_id=cluster_id)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(node.run())
        await leads(node)
        await node.propose(b"work")
        shutil.copytree(home / "live", home / "left")
        await node.close()
    for name in ("raft.db", "checkpoint.db"):
        assert (home / "left" / f"{name}-wal").stat().st_size > 0
    return home / "left"


@pytest.mark.parametrize("index", [True, False], ids=["killed", "power lost"])
@pytest.mark.parametrize("damage", ["noise", "another cluster"])
async def test_a_checkpoint_that_cannot_be_used_is_refused_and_no_byte_changes(
    tmp_path: Path, damage: str, *, index: bool
) -> None:
    left = await left_by_a_crash(tmp_path / "mine")
    checkpoint = left / "checkpoint.db"
    if damage == "noise":
        checkpoint.write_bytes(b"noise" * 1000)
        checkpoint.with_name("checkpoint.db-wal").unlink()
    else:
        other = await left_by_a_crash(tmp_path / "other", OTHER)
        for end in ("", "-wal"):
            shutil.copyfile(other / f"checkpoint.db{end}", left / f"checkpoint.db{end}")
    if not index:
        for shared in left.glob("*-shm"):
            shared.unlink()
    before = contents(left)
    with pytest.raises(Unfit, match=r"checkpoint\.db"):
        open_node(left)
    assert contents(left) == before


async def test_what_a_crash_left_is_looked_at_and_then_opened(tmp_path: Path) -> None:
    node: Node = open_node(await left_by_a_crash(tmp_path))
    assert node.status().last_index == 3
    await node.close()
