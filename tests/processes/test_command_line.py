"""The command line against real processes: every client command, its exit code and the forms it prints."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes.cluster import Cluster, fresh_key, running_cluster, wait_for
from tests.processes.side_effects import LINE, command_schedule, launches

pytestmark = pytest.mark.processes

RUN_KEYS = {
    "namespace", "schedule", "schedule_id", "scheduled_for", "run_id", "state", "reason", "attempts",
}  # fmt: skip
ATTEMPT_KEYS = {
    "n", "state", "worker", "incarnation", "epoch", "permit", "execution_id", "started_at", "ended_at", "exit_code",
}  # fmt: skip
STATUS_KEYS = {
    "cluster_id", "generation", "node", "role", "owner", "epoch", "revision", "term", "applied_index", "voters",
    "workers", "runs",
}  # fmt: skip


def ran(cluster: Cluster, *words: str, code: int = 0, config: str = "operator.toml") -> str:
    """Run a command in a process of its own; what may be repeated is repeated in this one."""
    return checked(cluster.call(*words, config=config), words, code)


def said(cluster: Cluster, *words: str, code: int = 0, config: str = "operator.toml") -> str:
    """Run a command in this process."""
    return checked(cluster.told(*words, config=config), words, code)


def checked(done: subprocess.CompletedProcess[str], words: tuple[str, ...], code: int) -> str:
    assert done.returncode == code, (words, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_one_life_of_a_schedule(tmp_path: Path) -> None:
    with running_cluster(tmp_path, voters=1) as cluster:
        path = tmp_path / "schedules.toml"
        path.write_text(command_schedule("job", LINE, every="1h"))
        assert cluster.call("apply", "-f", str(path), "--dry-run").returncode == 10
        assert cluster.json("schedules") == []
        ran(cluster, "apply", "-f", str(path))
        said(cluster, "apply", "-f", str(path), "--dry-run")
        assert [s["name"] for s in cluster.json("schedules")] == ["job"]

        key = fresh_key()
        first = ran(cluster, "trigger", "test/job", "--key", key)
        again = said(cluster, "trigger", "test/job", "--key", key)
        assert again.splitlines()[1] == first.splitlines()[1], "another run id"
        wait_for("the triggered run", lambda: [r for r in cluster.runs() if r["state"] == "Succeeded"])
        assert len(cluster.runs()) == 1, "the same key made a second run"
        assert len(launches(tmp_path, "job")) == 1
        run = cluster.runs()[0]
        assert run.keys() >= RUN_KEYS
        assert run["attempts"][0].keys() >= ATTEMPT_KEYS
        assert run["attempts"][0]["exit_code"] == 0
        assert isinstance(run["attempts"][0]["permit"], int)

        shown = cluster.json("show", run["run_id"])
        assert shown["unknown_because"] is None
        assert {"claim", "admit", "accept", "finish"} <= {e["op"] for e in shown["events"]}
        assert cluster.json("events")[0].keys() >= {
            "revision",
            "at",
            "actor",
            "run_id",
            "attempt",
            "op",
            "from",
            "to",
            "why",
        }
        assert cluster.json("status").keys() >= STATUS_KEYS
        for words in (["schedules"], ["runs"], ["show", run["run_id"]], ["status"], ["events"]):
            assert said(cluster, *words).strip()

        ran(cluster, "disable", "test/job")
        assert cluster.json("schedules")[0]["enabled"] is False
        said(cluster, "apply", "-f", str(path))
        assert cluster.json("schedules")[0]["enabled"] is False, "apply changed enabled/disabled"
        ran(cluster, "enable", "test/job")
        assert "\nopen_runs: 0\n" in ran(cluster, "delete", "test/job")
        assert cluster.json("schedules") == []
        assert "was deleted" in ran(cluster, "trigger", "test/job", code=1)
        assert run["run_id"] in ran(cluster, "runs", "--schedule", "test/job"), "its runs stay"
        assert "would revive test/job" in cluster.call("apply", "--dry-run", "-f", str(path)).stdout
        assert "test/job revived" in ran(cluster, "apply", "-f", str(path))
        assert "Succeeded" in ran(cluster, "cancel", run["run_id"], code=1)
        said(cluster, "trigger", "test/nothing", code=1)
        assert said(
            cluster, "attest", run["run_id"], "1", "--attester", "Eve", "--statement", "x", "--evidence", "y", code=1
        )


def tree_in(path: Path) -> list[str] | None:
    """Return the three process ids, once all are there."""
    pids = path.read_text().split() if path.exists() else []
    return pids if len(pids) == 3 else None


def accepted(cluster: Cluster) -> dict[str, Any] | None:
    """Return a run whose first attempt's acceptance is on record."""
    return next((r for r in cluster.runs() if r["attempts"] and r["attempts"][0]["state"] == "Accepted"), None)


def stale_answer(cluster: Cluster) -> subprocess.CompletedProcess[str] | None:
    done = cluster.told("runs", "--json", config="other.toml")
    return done if done.returncode == 0 and done.stderr else None


def test_cancel_stops_the_whole_process_group(tmp_path: Path) -> None:
    with running_cluster(tmp_path, voters=1) as cluster:
        script = (
            f'echo $$ >> pids; sleep 300 & echo $! >> pids; sh -c "sleep 301 & echo \\$! >> pids; wait" & {LINE}; wait'
        )
        cluster.apply(command_schedule("tree", script, every="1h"))
        ran(cluster, "trigger", "test/tree")
        pids = wait_for("the tree", lambda: tree_in(tmp_path / "pids"))
        run = wait_for("its acceptance", lambda: accepted(cluster))
        assert "Cancelling" in ran(cluster, "cancel", run["run_id"])
        wait_for("Cancelled", lambda: cluster.json("show", run["run_id"])["state"] == "Cancelled")
        assert not [
            pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
        ]


def test_a_voter_that_does_not_own_relays_and_a_minority_says_that_it_is_stale(tmp_path: Path) -> None:
    with running_cluster(tmp_path, workers=0) as cluster:
        cluster.apply(command_schedule("job", LINE, every="1h"))
        owner = cluster.wait_for_owner()
        other, third = (name for name in cluster.voters if name != owner)
        port = cluster.base + 200 + int(other.removeprefix("node"))
        config = cluster.dir / "other.toml"
        text = (cluster.dir / "operator.toml").read_text()
        config.write_text(re.sub(r"management_urls = .*", f'management_urls = ["http://127.0.0.1:{port}"]', text))

        ran(cluster, "trigger", "test/job", config="other.toml")
        assert len(json.loads(ran(cluster, "runs", "--json", config="other.toml"))) == 1
        assert cluster.json("status", config="other.toml")["node"] == other

        cluster.kill(owner, third)
        stale = wait_for("a stale answer", lambda: stale_answer(cluster))
        assert "stale" in stale.stderr.lower()
        assert len(json.loads(stale.stdout)) == 1
        done = cluster.told("trigger", "test/job", config="other.toml", patience_s=1.0)
        assert done.returncode in {1, 3}, "a minority took a change"


def test_a_worker_out_of_contact_is_lost(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, voters=1)
    node = cluster.dir / "node1.toml"
    node.write_text(node.read_text() + "\n[timing]\ncontact_s = 2.0\n")
    try:
        cluster.start_voters()
        cluster.start("worker")
        cluster.apply(command_schedule("slow", f"{LINE}; sleep 30", every="1h"))
        ran(cluster, "trigger", "test/slow")
        run = wait_for("its acceptance", lambda: accepted(cluster))
        cluster.kill("worker")
        wait_for("Unknown", lambda: cluster.json("show", run["run_id"])["state"] == "Unknown")
        shown = cluster.json("show", run["run_id"])
        assert shown["attempts"][0]["state"] == "Unknown"
        assert "worker" in shown["unknown_because"]
        assert len(launches(tmp_path, "slow")) == 1
    finally:
        cluster.stop()
