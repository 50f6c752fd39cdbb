"""What leaves session, group, environment and output of its command is ended before the end is reported."""

from pathlib import Path
from typing import Any

import pytest

from tests.processes.cluster import Cluster, running_cluster, wait_for
from tests.processes.side_effects import LINE, command_schedule, launches

pytestmark = pytest.mark.processes

ESCAPE = 'setsid env -i /bin/sh -c "echo \\$\\$ >> {pids}; exec /bin/sleep 303" >/dev/null 2>&1 & '


def living(path: Path) -> list[str]:
    pids = path.read_text().split() if path.exists() else []
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()]


def finished(cluster: Cluster, name: str, state: str) -> dict[str, Any] | None:
    return next((run for run in cluster.runs() if run["schedule"] == name and run["state"] == state), None)


def test_an_escapee_is_dead_when_its_attempt_is_cancelled_or_tried_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    alive_at_retry = tmp_path / "alive_at_retry"
    again = (
        f"for pid in $(cat {second}); do kill -0 $pid && echo $pid >> {alive_at_retry}; done; "
        f"{ESCAPE.format(pids=second)} {LINE}; sleep 600"
    )
    more = "retry = { attempts = 2 }"
    with running_cluster(tmp_path, voters=1) as cluster:
        cluster.apply(
            command_schedule("stopped", f"{ESCAPE.format(pids=first)} sleep 600", every="1h")
            + command_schedule("again", again, every="1h", more=more)
            + 'timeout = "3s"\n'
        )
        for name in ("stopped", "again"):
            done = cluster.call("trigger", f"test/{name}")
            assert done.returncode == 0, done.stderr
        wait_for("the escapee", lambda: living(first))
        (run,) = (run for run in cluster.runs() if run["schedule"] == "stopped")
        done = cluster.call("cancel", run["run_id"])
        assert done.returncode == 0, done.stderr
        wait_for("Cancelled", lambda: finished(cluster, "stopped", "Cancelled"))
        assert living(first) == [], "Cancelled, and alive"

        failed = wait_for("both attempts to time out", lambda: finished(cluster, "again", "Failed"))
        assert [attempt["state"] for attempt in failed["attempts"]] == ["Failed", "Failed"]
        assert len(launches(tmp_path, "again")) == 2
        assert len(second.read_text().split()) == 2
        assert not alive_at_retry.exists(), "the second attempt met a child of the first"
        assert living(second) == []
