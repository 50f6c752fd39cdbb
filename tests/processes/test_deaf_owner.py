"""Both workers of a real cluster fall silent: the owner moves once, and the next one loses what does not come back."""

import signal
from pathlib import Path

import pytest

from tests.processes.cluster import Cluster, wait_for
from tests.processes.side_effects import command_schedule, let_go
from tests.processes.test_failover import events

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]
TIMING = """
[timing]
contact_s = 3.0
poll_s = 0.5
"""
WORKERS = ("worker", "worker2")
MOVED = "moved leadership, since most workers fell silent at once"


def states(cluster: Cluster) -> list[str]:
    return [attempt["state"] for row in cluster.json("runs") or [] for attempt in row["attempts"]]


def test_leadership_moves_once_before_work_is_lost(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, workers=2)
    for name in cluster.voters:
        config = cluster.dir / f"{name}.toml"
        config.write_text(config.read_text() + TIMING)
    try:
        cluster.start_voters()
        cluster.start(*WORKERS)
        wait_for("both in contact", lambda: all(events(cluster, name, "lineage") for name in WORKERS) or None)
        for name in ("one", "two"):
            cluster.apply(command_schedule(name, "until test -e let_go; do sleep 1; done", every="1h"))
            assert cluster.told("trigger", f"test/{name}").returncode == 0
        wait_for("both at work", lambda: states(cluster) == ["Accepted"] * 2 or None)
        first = cluster.wait_for_owner()
        for name in WORKERS:
            cluster.processes[name].send_signal(signal.SIGSTOP)
        wait_for("both lost", lambda: states(cluster) == ["Unknown"] * 2 or None)
        moved = {name: len(events(cluster, name, MOVED)) for name in cluster.voters}
        assert moved == {name: int(name == first) for name in cluster.voters}
    finally:
        let_go(tmp_path)
        for name in WORKERS:
            if name in cluster.processes:
                cluster.kill(name)
        cluster.stop()
