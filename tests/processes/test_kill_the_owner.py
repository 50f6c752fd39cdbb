"""Real voters, real kill -9: each planned occurrence has its one run, each attempt was launched at most once."""

import random
import time
from pathlib import Path

import pytest

from tests.processes.cluster import Cluster, running_cluster, wait_for
from tests.processes.side_effects import (
    LINE,
    UNTIL_LET_GO,
    command_schedule,
    instants_between,
    launches,
    let_go,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]
KILLS = 5


def accounted(cluster: Cluster, name: str) -> dict[str, str]:
    """Return state by instant over all rows of a schedule, ranges spelled out; no instant may have two rows."""
    by_instant: dict[str, str] = {}
    for row in cluster.runs("--schedule", f"test/{name}"):
        last = row.get("scheduled_until") or row["scheduled_for"]
        for instant in instants_between(row["scheduled_for"], last):
            assert instant not in by_instant, f"{instant} has two rows"
            by_instant[instant] = row["state"]
    return by_instant


def test_killing_the_owner_loses_and_doubles_nothing(tmp_path: Path) -> None:
    moments = random.Random(20261130)
    with running_cluster(tmp_path) as cluster:
        cluster.apply(command_schedule("tick", LINE))
        for _ in range(KILLS):
            time.sleep(moments.uniform(0.5, 2.5))  # the pace of the faults, nothing waits for it
            owner = cluster.wait_for_owner()
            cluster.kill(owner)
            time.sleep(moments.uniform(0, 1))
            cluster.start(owner)
        cluster.wait_for_owner()
        assert cluster.call("disable", "test/tick").returncode == 0
        wait_for(
            "every run to come to its end",
            lambda: all(r["state"] in {"Succeeded", "Skipped"} for r in cluster.runs("--schedule", "test/tick")),
        )
        states, launched = accounted(cluster, "tick"), launches(tmp_path, "tick")

    planned = instants_between(min(states), max(states))
    assert len(planned) > KILLS
    assert sorted(states) == planned, "a planned instant has neither a run nor a Skipped row"
    assert set(launched.values()) == {1}, "an attempt was launched twice"
    by_instant = {instant: {run for i, run, _ in launched if i == instant} for instant in planned}
    assert all(len(runs) <= 1 for runs in by_instant.values()), "an occurrence has two runs"
    assert all(by_instant[i] for i, state in states.items() if state == "Succeeded"), "Succeeded without a side effect"


def test_all_voters_killed_at_once_come_back_with_everything(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.apply(command_schedule("long", f"{LINE}; {UNTIL_LET_GO}", more="retry = { attempts = 1 }"))
        wait_for("the long command to start", lambda: launches(tmp_path, "long") or None)
        before = wait_for(
            "its acceptance on record",
            lambda: [r for r in cluster.runs() if r["attempts"] and r["attempts"][0]["state"] == "Accepted"],
        )
        cluster.kill(*cluster.voters)
        cluster.start(*reversed(cluster.voters))
        for name in cluster.voters:
            wait_for(
                f"{name} to be ready",
                lambda name=name: cluster.log(name).read_text().count('"event": "ready"') >= 2 or None,
            )
        run = wait_for(
            "the running work reported", lambda: [r for r in cluster.runs() if r["run_id"] == before[0]["run_id"]]
        )[0]
        assert run["attempts"][0]["permit"] == before[0]["attempts"][0]["permit"]
        let_go(tmp_path)
        wait_for("its result", lambda: cluster.json("show", run["run_id"])["state"] == "Succeeded")
        assert max(launches(tmp_path, "long").values()) == 1


def test_a_killed_worker_leaves_unknown_and_nothing_is_retried(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.apply(command_schedule("slow", f"{LINE}; {UNTIL_LET_GO}", more="retry = { attempts = 3 }"))
        wait_for("the command to start", lambda: launches(tmp_path, "slow") or None)
        wait_for(
            "its acceptance on record",
            lambda: any(a["state"] == "Accepted" for r in cluster.runs() for a in r["attempts"]) or None,
        )
        cluster.kill("worker")
        cluster.start("worker")
        unknown = wait_for("Unknown", lambda: [r for r in cluster.runs() if r["state"] == "Unknown"])[0]
        skipped = wait_for("skips after it", lambda: [r for r in cluster.runs() if r["state"] == "Skipped"])
        assert {r["reason"] for r in skipped} == {"overlap"}
        assert len(unknown["attempts"]) == 1
        assert len(launches(tmp_path, "slow")) == 1
        shown = cluster.json("show", unknown["run_id"])
        assert shown["unknown_because"]
        attest = cluster.call(
            "attest",
            unknown["run_id"],
            "1",
            "--attester",
            "Ada",
            "--statement",
            "nothing of it runs",
            "--evidence",
            "ps on the host",
            config="recovery.toml",
        )
        assert attest.returncode == 0, attest.stderr
        assert cluster.json("show", unknown["run_id"])["state"] == "Quiesced"
        wait_for("the next occurrence once the slot is free", lambda: len(launches(tmp_path, "slow")) > 1 or None)
        let_go(tmp_path)
