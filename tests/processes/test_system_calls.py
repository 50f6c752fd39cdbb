"""Real voters under strace: nothing is acknowledged, voted, committed or answered before its fdatasync has returned."""

import json
import os
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes.cluster import Cluster, fresh_key, running_cluster, wait_for
from tests.processes.side_effects import LINE, command_schedule
from tests.processes.system_calls import STRACE, SYNCS, Call, judge, read_calls

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]
KINDS = {"acknowledgement", "term", "vote", "commit", "answer", "answer backed"}


def not_here(why: str) -> None:
    """Skip, with the reason; under CI nothing is skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must be able to trace: {why}")
    pytest.skip(why)


@contextmanager
def traced(cluster: Cluster) -> Iterator[dict[str, Path]]:
    """Trace every voter for a while; the traces are whole when the block has ended."""
    tracers: dict[str, subprocess.Popen[bytes]] = {}
    traces = {name: cluster.folder / f"{name}.strace" for name in cluster.voters}
    try:
        for name in cluster.voters:
            said = cluster.folder / f"{name}.strace.said"
            with said.open("wb") as stderr:
                command = [*STRACE, "-o", str(traces[name]), "-p", str(cluster.processes[name].pid)]
                try:
                    tracers[name] = subprocess.Popen(command, stderr=stderr)
                except FileNotFoundError:
                    not_here("strace is not installed")
            wait_for("strace to attach", lambda said=said: said.read_text())
            if "attached" not in said.read_text():
                not_here(f"strace may not attach: {said.read_text().strip()}")
        yield traces
    finally:
        for tracer in tracers.values():
            tracer.send_signal(signal.SIGINT)
        for tracer in tracers.values():
            tracer.wait(timeout=30)


def change(cluster: Cluster, name: str, what: str) -> None:
    """Ask one voter for a change and demand that it is done."""
    token = (cluster.dir / "credentials" / "operator.token").read_text().strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{management_port(cluster, name)}/v1/{what}",
        json.dumps({"namespace": "test", "name": "tick"}).encode(),
        {"Authorization": f"Bearer {token}", "Idempotency-Key": fresh_key(), "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def management_port(cluster: Cluster, name: str) -> int:
    return cluster.base + 200 + cluster.voters.index(name) + 1


def judged(traces: dict[str, list[Call]], cluster: Cluster) -> tuple[list[str], Counter[str]]:
    """Return what is wrong, with the voter, and how often there was something to look at."""
    problems, looked_at = [], Counter[str]()
    for name, calls in traces.items():
        found = judge(calls, management_port(cluster, name))
        problems += [f"{name}: {problem}" for problem in found.problems]
        looked_at += found.looked_at
    return problems, looked_at


def without_syncs(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.name not in SYNCS]


def test_everything_that_voters_say_has_been_synced_before(tmp_path: Path) -> None:
    with running_cluster(tmp_path, workers=0) as cluster:
        cluster.apply(command_schedule("tick", LINE))
        owner = cluster.wait_for_owner()
        with traced(cluster) as files:
            for what in ("disable", "enable") * 4:
                change(cluster, owner, what)
            cluster.kill(owner)
            after = wait_for("another owner", lambda: (now := cluster.owner()) != owner and now)
            for what in ("disable", "enable") * 2:
                change(cluster, after, what)
        traces = {name: read_calls(path.read_text().splitlines()) for name, path in files.items()}
    problems, looked_at = judged(traces, cluster)
    assert problems == []
    assert looked_at.keys() >= KINDS, looked_at
    assert looked_at["answer"] >= 6, "half of the changes; which calls a trace shows whole varies"
    assert looked_at["acknowledgement"] >= 6
    blind, _ = judged({name: without_syncs(calls) for name, calls in traces.items()}, cluster)
    assert {problem.split(": ")[1] for problem in blind} >= KINDS - {"answer backed"}, "the judge does not see"
