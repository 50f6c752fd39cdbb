"""A voter on a file system that really fills up: it stops writing, says so, and goes on by itself once there is space."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.processes.cluster import Cluster, running_cluster, wait_for
from tests.processes.side_effects import LINE, command_schedule, launches

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


@pytest.fixture
def mounts() -> Iterator[list[Path]]:
    """Skip where nothing can be mounted (never under CI); unmount at the end what a test has mounted."""
    if os.geteuid() != 0 and os.environ.get("CI") != "true":
        pytest.skip("needs root, to mount a small file system")
    mounted: list[Path] = []
    yield mounted
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def move_to_small_disk(folder: Path, mounts: list[Path]) -> None:
    """Put a folder on a file system of its own, of 64 MiB."""
    aside = folder.with_name(folder.name + ".aside")
    shutil.copytree(folder, aside)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to mount: {done.stderr}")
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
    mounts.append(folder)
    shutil.copytree(aside, folder, dirs_exist_ok=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the file system of a folder to the last byte for a while."""
    filler = folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                assert os.statvfs(folder).f_bavail == 0
        yield
    finally:
        filler.unlink()


def ask(cluster: Cluster, name: str, path: str) -> tuple[int, Any]:
    """Ask one voter's management listener; status 0 while it cannot be reached."""
    port = cluster.base + 200 + cluster.voters.index(name) + 1
    token = (cluster.dir / "credentials" / "operator.token").read_text().strip()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, None


def is_ready(cluster: Cluster, name: str) -> bool:
    return ask(cluster, name, "/readyz")[0] == 200


def caught_up(cluster: Cluster, name: str) -> bool:
    """Whether a voter has applied everything that some other one had applied a moment before."""
    other = next(voter for voter in cluster.voters if voter != name)
    status, theirs = ask(cluster, other, "/v1/status")
    return status == 200 and ask(cluster, name, "/v1/status")[1]["applied_index"] >= theirs["applied_index"]


def test_the_owner_on_a_full_disk_steps_aside_and_comes_back_by_itself(tmp_path: Path, mounts: list[Path]) -> None:
    cluster = Cluster(tmp_path)
    for name in cluster.voters:
        move_to_small_disk(cluster.dir / "data" / name, mounts)
    with running_cluster(tmp_path, made=cluster):
        cluster.apply(command_schedule("tick", LINE))
        full = cluster.wait_for_owner()
        folder = cluster.dir / "data" / full
        with filled(folder):
            wait_for(f"{full} to be not ready", lambda: not is_ready(cluster, full))
            status, words = ask(cluster, full, "/readyz")
            assert status == 503
            assert words["why"].startswith("disk full: ")
            assert ask(cluster, full, "/v1/status")[1]["trouble"].startswith("disk full: ")
            before = launches(tmp_path, "tick").total()
            wait_for("the others to go on", lambda: launches(tmp_path, "tick").total() >= before + 3)
            assert cluster.processes[full].poll() is None, "it must not crash on a full disk"
            cluster.kill(full)
            cluster.start(full)  # on the full disk: it waits, or refuses in one line; either way nothing is broken
            wait_for(
                "the restarted voter to say what is wrong",
                lambda: ask(cluster, full, "/readyz")[0] == 503 or cluster.processes[full].poll() is not None,
            )
        if cluster.processes[full].poll() is not None:
            assert "space" in cluster.log(full).read_text().splitlines()[-1]
            cluster.start(full)
        wait_for(f"{full} to be ready again", lambda: is_ready(cluster, full))
        wait_for(f"{full} to have caught up", lambda: caught_up(cluster, full))
        assert set(launches(tmp_path, "tick").values()) == {1}


def test_with_every_disk_full_nothing_is_permitted_and_all_recover(tmp_path: Path, mounts: list[Path]) -> None:
    cluster = Cluster(tmp_path, voters=1)
    move_to_small_disk(cluster.dir / "data" / "node1", mounts)
    with running_cluster(tmp_path, made=cluster):
        cluster.apply(command_schedule("tick", LINE))
        wait_for("a launch", lambda: launches(tmp_path, "tick") or None)
        with filled(cluster.dir / "data" / "node1"):
            wait_for("it to be not ready", lambda: not is_ready(cluster, "node1"))
            since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            refused = cluster.told("disable", "test/tick", patience_s=4.0)
            assert refused.returncode not in {0, 3}, "certainly not done, and said so"
            launched = max(instant for instant, _, _ in launches(tmp_path, "tick"))
            assert launched <= since, "launched without a durable permit"
        wait_for("it to be ready again", lambda: is_ready(cluster, "node1"))
        before = launches(tmp_path, "tick").total()
        wait_for("launches to go on", lambda: launches(tmp_path, "tick").total() > before or None)
        assert cluster.call("disable", "test/tick").returncode == 0
        assert set(launches(tmp_path, "tick").values()) == {1}
