"""Real nodes, real threads: the copy is made, checked and installed off the loop."""

import asyncio
import sqlite3
from pathlib import Path

from cluster.compaction import Bounds
from cluster.node import Node
from tests.simulation.cluster.machine import Appends, appended
from tests.unit.cluster.fakes import CLUSTER
from tests.unit.cluster.test_node import HostClock, Random, Timing, disk, join, leads

NAMES = ("node1", "node2", "node3")


def open_small(home: Path, name: str) -> Node:
    return Node.open(
        home / name,
        name=name,
        cluster_id=CLUSTER,
        members=NAMES,
        machine=Appends(),
        clock=HostClock(),
        randomness=Random(name),
        timing=Timing(),
        bounds=Bounds(every_entries=50, keep_entries=10, piece_bytes=1024),
    )


async def test_a_voter_that_was_away_is_sent_a_snapshot_while_the_others_work(tmp_path: Path) -> None:
    for name in NAMES:
        disk(tmp_path, name, 3)
    nodes = {name: open_small(tmp_path, name) for name in NAMES}
    async with asyncio.TaskGroup() as tasks:
        for node in nodes.values():
            tasks.create_task(node.run())
        for one, two in (("node1", "node2"), ("node1", "node3"), ("node2", "node3")):
            join(nodes[one], nodes[two], one + two)
        leader = await leads(*nodes.values())
        late = next(name for name in NAMES if name != leader.identity.name)
        await leader.propose(b"first")
        await nodes[late].close()
        number = 0
        while leader._replica._log.first_index < 100:
            number += 1
            await leader.propose(b"%d" % number)
        back = nodes[late] = open_small(tmp_path, late)
        behind = back.status().last_index
        assert behind < leader._replica._log.first_index
        tasks.create_task(back.run())
        for name in NAMES:
            if name != late:
                join(back, nodes[name], f"again-{name}")
        seen: set[int] = set()

        def count(db: sqlite3.Connection) -> int:
            (count,) = db.execute("SELECT count(*) FROM appended").fetchone()
            return int(count)

        while back._replica._upkeep.installed == 0:
            number += 1
            await leader.propose(b"%d" % number)
            seen.add(await back.read(count))
        await leader.barrier()
        while back.status().applied_index < leader.status().applied_index:  # noqa: ASYNC110 - a follower's progress makes no event
            await asyncio.sleep(0)
        assert await back.read(appended) == await leader.read(appended)
        assert seen, "nobody read while the snapshot was on its way"
        assert (back.status().digest, back._replica._upkeep.installed) == (leader.status().digest, 1)
        for node in nodes.values():
            await node.close()
    left = {file.name for name in NAMES for file in (tmp_path / name).iterdir()}
    assert left == {"raft.db", "raft.mark", "checkpoint.db", "lock"}


async def test_closing_in_the_middle_of_a_copy_waits_for_its_thread(tmp_path: Path) -> None:
    disk(tmp_path, "node1", 3)
    node = open_small(tmp_path, "node1")
    started, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def job() -> None:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        loop.call_soon_threadsafe(ended.set)

    node._executor.submit(job)
    await started.wait()
    await node.close()
    assert ended.is_set()
