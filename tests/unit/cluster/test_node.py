import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from cluster.identity import create_disk
from cluster.node import Node
from cluster.outcome import FailStop, NotApplied, OutcomeUnknown, Unfit, Why
from cluster.ports import Identity, Leadership, Timing
from cluster.room import FreeBytes, boundless
from tests.simulation.cluster.machine import Appends, appended
from tests.unit.cluster.fakes import CLUSTER, identity


class HostClock:
    def mono_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class PipeEnd:
    """One end of an in-memory link; frames arrive in a later turn of the loop, in order."""

    def __init__(self, peer: Identity, session: str) -> None:
        self._peer, self._session = peer, session
        self.far: tuple[Node, PipeEnd] | None = None

    @property
    def peer(self) -> str:
        return self._peer.name

    @property
    def disk_id(self) -> str:
        return self._peer.disk_id

    @property
    def session(self) -> str:
        return self._session

    def send(self, frame: bytes) -> None:
        if self.far is not None:
            node, end = self.far
            asyncio.get_running_loop().call_soon(node.received, end, frame)

    def close(self, why: str) -> None:
        raise AssertionError(why)


def join(one: Node, two: Node, session: str) -> None:
    ends = PipeEnd(two.identity, session), PipeEnd(one.identity, session)
    ends[0].far, ends[1].far = (two, ends[1]), (one, ends[0])
    one.connected(ends[0])
    two.connected(ends[1])


def open_node(
    home: Path,
    name: str = "node1",
    voters: int = 1,
    cluster_id: str = CLUSTER,
    free_bytes: FreeBytes | None = None,
) -> Node:
    return Node.open(
        home,
        name=name,
        cluster_id=cluster_id,
        members=[f"node{rank}" for rank in range(1, voters + 1)],
        machine=Appends(),
        clock=HostClock(),
        randomness=Random(len(home.name) + voters),
        timing=Timing(),
        free_bytes=free_bytes,
    )


def disk(home: Path, name: str = "node1", voters: int = 1) -> Path:
    create_disk(home / name, identity(name, voters))
    return home / name


async def leads(*nodes: Node) -> Node:
    """Return the first node that says it leads."""

    async def wait(node: Node) -> Node:
        async for seen in node.leadership():
            if seen.role == "leader":
                return node
        raise AssertionError(node.identity.name)

    waiting = [asyncio.ensure_future(wait(node)) for node in nodes]
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return done.pop().result()


async def appending(node: Node) -> None:
    """Return once a tick of the node has appended something."""
    ticked = asyncio.Event()
    step, before = node._replica.step, node.status().last_index

    def watched() -> Generator[Callable[[], None], None, bool]:
        again = yield from step()
        if node.status().last_index > before:
            ticked.set()
        return again

    node._replica.step = watched  # type: ignore[method-assign]  # only to see it happen
    await ticked.wait()


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Node]:
    node = open_node(disk(tmp_path))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(node.run())
        await leads(node)
        yield node
        await node.close()


async def test_a_lone_voter_serves(alone: Node) -> None:
    applied = await alone.propose(b"work")
    assert applied.result == [1, "work"]
    assert await alone.barrier() > applied.index
    assert await alone.read(appended) == ["work"]
    status = alone.status()
    assert (status.name, status.role, status.leader, status.commit_index) == (
        "node1",
        "leader",
        "node1",
        status.applied_index,
    )
    assert alone.clocks() == ()


async def test_many_at_once_are_all_answered_in_order(alone: Node) -> None:
    results = await asyncio.gather(*(alone.propose(b"%d" % n) for n in range(300)))
    assert [applied.result for applied in results] == [[n + 1, str(n)] for n in range(300)]


async def test_a_proposal_may_be_given_a_time(alone: Node) -> None:
    with pytest.raises(NotApplied) as refused:
        await alone.propose(b"late", within_s=0.0)
    assert refused.value.why is Why.EXPIRED
    assert (await alone.propose(b"in time", within_s=60.0)).result == [1, "in time"]


async def test_a_caller_that_gives_up_leaves_its_proposal_in_place(alone: Node) -> None:
    impatient = asyncio.ensure_future(alone.propose(b"given up"))
    await asyncio.sleep(0)
    impatient.cancel()
    await alone.propose(b"next")
    assert await alone.read(appended) == ["given up", "next"]


async def test_three_voters_replicate_and_outlive_their_leader(tmp_path: Path) -> None:
    nodes = [open_node(disk(tmp_path, f"node{rank}", 3), f"node{rank}", 3) for rank in (1, 2, 3)]
    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            tasks.create_task(node.run())
        for rank, one in enumerate(nodes):
            for two in nodes[rank + 1 :]:
                join(one, two, f"{one.identity.name}-{two.identity.name}")
        leader = await leads(*nodes)
        await leader.propose(b"first")
        assert {clock.name for clock in leader.clocks()} == {n.identity.name for n in nodes} - {leader.identity.name}
        await leader.close()
        rest = [node for node in nodes if node is not leader]
        second = await leads(*rest)
        await second.barrier()
        assert await second.read(appended) == ["first"]
        await second.propose(b"second")
        with pytest.raises(NotApplied):
            await rest[1 - rest.index(second)].propose(b"refused")
        for node in rest:
            await node.close()


async def test_leadership_is_told_from_now_on_until_the_end(tmp_path: Path) -> None:
    node = open_node(disk(tmp_path))
    seen: list[Leadership] = []

    async def watch() -> None:
        seen.extend([leadership async for leadership in node.leadership()])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch())
        tasks.create_task(node.run())
        await leads(node)
        node.resign("a test")
        async for leadership in node.leadership():
            if leadership.term == 2 and leadership.role == "leader":
                break
        await node.close()
    assert seen[0] == Leadership(0, "follower")
    assert seen[-1] == Leadership(2, "leader")
    assert Leadership(1, "leader") in seen
    assert Leadership(1, "follower") in seen


async def test_an_end_in_the_middle_of_a_slow_flush_answers_everybody(tmp_path: Path) -> None:
    node = open_node(disk(tmp_path))
    began, may_end = asyncio.Event(), threading.Event()
    running = asyncio.ensure_future(node.run())
    await leads(node)
    node._flusher.off_loop, node._flusher._mean_s = True, 1.0
    flush, loop = node._replica._log.flush, asyncio.get_running_loop()

    def slow() -> None:
        loop.call_soon_threadsafe(began.set)
        may_end.wait()
        flush()

    node._replica._log.flush = slow  # type: ignore[method-assign]  # only to end in the middle of it
    proposing = asyncio.ensure_future(node.propose(b"work"))
    await began.wait()
    running.cancel()
    closing = asyncio.ensure_future(node.close())
    may_end.set()
    with pytest.raises(OutcomeUnknown):
        await proposing
    await closing
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_transfer_ends_when_another_voter_leads(tmp_path: Path) -> None:
    nodes = [open_node(disk(tmp_path, f"node{rank}", 3), f"node{rank}", 3) for rank in (1, 2, 3)]
    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            tasks.create_task(node.run())
        for rank, one in enumerate(nodes):
            for two in nodes[rank + 1 :]:
                join(one, two, f"{one.identity.name}-{two.identity.name}")
        leader = await leads(*nodes)
        pending = asyncio.ensure_future(leader.propose(b"pending"))
        await appending(leader)
        heir = await leader.transfer(20.0)
        assert (await pending).result == [1, "pending"]
        assert heir in {node.identity.name for node in nodes} - {leader.identity.name}
        new = next(node for node in nodes if node.identity.name == heir)
        assert new.status().role == "leader"
        assert await leader.transfer(20.0) == heir, "who does not lead hands nothing over"
        assert new.status().role == "leader"
        for node in nodes:
            await node.close()


async def test_a_transfer_to_nobody_ends_at_once_and_in_resignation(alone: Node) -> None:
    term = alone.status().term
    async with asyncio.timeout(20.0):
        assert await alone.transfer(60.0) is None
    with pytest.raises(NotApplied):
        await alone.propose(b"work")
    await leads(alone)
    assert alone.status().term == term + 1


async def test_a_transfer_ends_at_once_where_every_other_disk_is_full(tmp_path: Path) -> None:
    names = [f"node{rank}" for rank in (1, 2, 3)]
    free = dict.fromkeys(names, boundless())
    nodes = [open_node(disk(tmp_path, name, 3), name, 3, free_bytes=partial(free.__getitem__, name)) for name in names]
    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            tasks.create_task(node.run())
        for rank, one in enumerate(nodes):
            for two in nodes[rank + 1 :]:
                join(one, two, f"{one.identity.name}-{two.identity.name}")
        leader = await leads(*nodes)
        free.update({name: 0 for name in names if name != leader.identity.name})
        async with asyncio.timeout(20.0):
            while sum(voter.full for voter in leader.status().voters) < 2:  # noqa: ASYNC110 - a status has no event
                await asyncio.sleep(0.001)
            assert await leader.transfer(600.0) is None
        for node in nodes:
            await node.close()


async def test_a_transfer_that_nobody_takes_up_ends_in_time(tmp_path: Path) -> None:
    nodes = [open_node(disk(tmp_path, f"node{rank}", 3), f"node{rank}", 3) for rank in (1, 2, 3)]
    async with asyncio.TaskGroup() as tasks:
        runs = {node.identity.name: tasks.create_task(node.run()) for node in nodes}
        for rank, one in enumerate(nodes):
            for two in nodes[rank + 1 :]:
                join(one, two, f"{one.identity.name}-{two.identity.name}")
        leader = await leads(*nodes)
        await leader.propose(b"all is well")
        for name, run in runs.items():
            if name != leader.identity.name:
                run.cancel()  # linked, and as silent as a suspended process
        assert await leader.transfer(0.05) is None
        with pytest.raises((NotApplied, OutcomeUnknown)):
            await leader.propose(b"late")
        for node in nodes:
            await node.close()


async def test_a_disk_that_speaks_for_its_voter_already_is_answered_as_done_and_no_other_is_named(
    tmp_path: Path,
) -> None:
    node = open_node(disk(tmp_path))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(node.run())
        await leads(node)
        before = node.status().last_index
        assert await node.replace("node1", node.identity.disk_id) == 1
        for name in ("node1", "node9"):
            with pytest.raises(NotApplied) as refused:
                await node.replace(name, "e" * 32)
            assert refused.value.why is Why.NO_REPLACEMENT
        assert node.status().last_index == before
        await node.close()


async def test_closing_leaves_what_was_appended_unknown(tmp_path: Path) -> None:
    nodes = [open_node(disk(tmp_path, f"node{rank}", 3), f"node{rank}", 3) for rank in (1, 2, 3)]
    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            tasks.create_task(node.run())
        for rank, one in enumerate(nodes):
            for two in nodes[rank + 1 :]:
                join(one, two, f"{one.identity.name}-{two.identity.name}")
        leader = await leads(*nodes)
        for node in nodes:
            if node is not leader:
                await node.close()
        pending = asyncio.ensure_future(leader.propose(b"nobody answers"))
        await appending(leader)
        await leader.close()
        with pytest.raises(OutcomeUnknown):
            await pending
        with pytest.raises(NotApplied) as refused:
            await leader.propose(b"late")
        assert refused.value.why is Why.CLOSED


async def test_a_failing_disk_ends_the_run(tmp_path: Path) -> None:
    node = open_node(disk(tmp_path))
    running = asyncio.ensure_future(node.run())
    await leads(node)
    node._replica._log._db.close()
    pending = asyncio.ensure_future(node.propose(b"work"))
    with pytest.raises(FailStop):
        await running
    assert not pending.done(), "something was answered after the end"
    await node.close()
    with pytest.raises(OutcomeUnknown):
        await pending


async def test_a_restarted_voter_has_everything(tmp_path: Path) -> None:
    home = disk(tmp_path)
    for number in range(3):
        node = open_node(home)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(node.run())
            await leads(node)
            await node.propose(b"%d" % number)
            assert await node.read(appended) == [str(n) for n in range(number + 1)]
            await node.close()


# ---- what cannot be opened


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_configuration_that_disagrees_changes_nothing(tmp_path: Path) -> None:
    home = disk(tmp_path)
    before = contents(home)
    with pytest.raises(Unfit, match="voter"):
        open_node(home, name="node2")
    with pytest.raises(Unfit, match="cluster"):
        open_node(home, cluster_id="other")
    with pytest.raises(Unfit, match="members"):
        open_node(home, voters=3)
    assert contents(home) == before


def test_an_empty_folder_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(Unfit, match="fencepost init"):
        open_node(tmp_path)
    assert contents(tmp_path) == {}


async def test_a_second_process_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    home = disk(tmp_path)
    node = open_node(home)
    before = contents(home)
    with pytest.raises(Unfit, match="another process"):
        open_node(home)
    assert contents(home) == before
    await node.close()
    await open_node(home).close()


def test_what_cannot_be_opened_gives_the_folder_back(tmp_path: Path) -> None:
    home = disk(tmp_path)
    (home / "checkpoint.db").write_bytes(b"noise" * 1000)
    for _ in range(2):
        with pytest.raises(Unfit, match=r"checkpoint\.db"):
            open_node(home)
