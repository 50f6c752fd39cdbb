"""One real voter under the runner, on real files: what the fake node stands for."""

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.identity import create_disk
from cluster.node import Node
from cluster.ports import Identity
from cluster.ports import Timing as RaftTiming
from runner import ports
from runner.admission.service import Admission
from runner.checkpoint import ops
from runner.checkpoint.machine import Checkpoint
from runner.service import Runner
from runner.settings import Timing
from tests.unit.runner.fake_node import CLUSTER_ID
from tests.unit.runner.world import URLS, FakeWorker, operation, tick


class RealClock:
    def mono_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Opened:
    admission: Admission


def opened(data_dir: Path) -> Node:
    clock, timing = RealClock(), RaftTiming(0.05, 0.1, 0.01, 0.005)
    return Node.open(
        data_dir,
        name="node1",
        cluster_id=CLUSTER_ID,
        members=["node1"],
        machine=Checkpoint(CLUSTER_ID),
        clock=clock,
        randomness=random.Random(1),
        timing=timing,
    )


async def test_a_run_goes_from_its_instant_to_success_and_outlives_the_process(tmp_path: Path) -> None:
    create_disk(tmp_path, Identity(CLUSTER_ID, 1, "node1", "d" * 32, {"node1": "d" * 32}))
    for life in (1, 2):
        node: Node = opened(tmp_path)
        port: ports.Node = node
        clock = RealClock()
        runner = Runner(node=port, clock=clock, name="node1", voters=1, timing=Timing())
        admission = Admission(runner=runner, node=port, clock=clock, urls=URLS, timing=Timing())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(node.run()), group.create_task(runner.run())]
            async with asyncio.timeout(30):
                while not runner.drives:  # noqa: ASYNC110 -- the runner has no hook only for tests
                    await asyncio.sleep(0.005)
                worker = FakeWorker(Opened(admission), incarnation=f"i{life}")
                applied = await runner.submit(ops.Apply(operation("k1"), (), (tick(),)))
                assert (applied.kind, applied.again) == ("done", life == 2)
                claim = await worker.claim()
                worker.hold(claim)
                answer = await worker.permit(claim)
                assert (answer.kind, answer.token) == ("granted", (1 << 40) + life)
                assert (await worker.report(worker.finish(claim))).kind == "recorded"
                assert runner.epoch == life
            for task in tasks:
                task.cancel()
        await node.close()
