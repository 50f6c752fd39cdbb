"""A process that was stopped for seconds (a paused virtual machine, a debugger, a suspend) comes back and serves."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.processes.cluster import Cluster, running_cluster, wait_for
from tests.processes.side_effects import LINE, command_schedule, launches

pytestmark = [pytest.mark.processes, pytest.mark.timeout(200)]
PAUSE_S = 3.5  # longer than a link's ping and its answer take together: the peers give the paused one up


def caught_up(cluster: Cluster) -> bool:
    """Return whether every voter is connected and stands where the first one stands."""
    status = cluster.json("status")
    return status is not None and all(v["connected"] for v in status["voters"])


def test_voters_that_were_stopped_for_seconds_come_back(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.apply(command_schedule("tick", LINE))
        wait_for("the first launch", lambda: launches(tmp_path, "tick") or None)
        owner = cluster.wait_for_owner()
        for names in ([voter for voter in cluster.voters if voter != owner], [owner]):  # a majority, then a minority
            for name in names:
                os.kill(cluster.processes[name].pid, signal.SIGSTOP)
            time.sleep(PAUSE_S)  # the fault itself; nothing waits for it
            for name in names:
                os.kill(cluster.processes[name].pid, signal.SIGCONT)
            wait_for(f"{names} to be linked again", lambda: caught_up(cluster))
            for name in names:
                assert cluster.processes[name].poll() is None, f"{name} ended: {cluster.log(name).read_text()[-2000:]}"
        before = len(launches(tmp_path, "tick"))
        wait_for("launches to go on", lambda: len(launches(tmp_path, "tick")) > before + 2)
        assert [name for name, process in cluster.processes.items() if process.poll() is not None] == []
        assert set(launches(tmp_path, "tick").values()) == {1}
