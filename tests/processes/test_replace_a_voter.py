"""A voter's folder is removed, and docs/replace-a-voter.md is followed: then any other voter may be lost."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes.cluster import ENVIRON, FENCEPOST, ROOT, Cluster, running_cluster, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


def steps() -> list[list[str]]:
    """Return the commands of the page, one a line, as a shell would part them."""
    page = (ROOT / "docs" / "replace-a-voter.md").read_text()
    (block,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]


def follow(cluster: Cluster, words: list[str]) -> str:
    """Do what one line of the page says; return what it prints."""
    match words:
        case ["rm", "-r", folder]:
            shutil.rmtree(cluster.folder / folder)
            return ""
        case ["fencepost", "runner", "--config", config, "&"]:
            cluster.start(Path(config).stem)
            return ""
        case ["fencepost", *command]:
            done = subprocess.run(
                [*FENCEPOST, *command],
                capture_output=True,
                text=True,
                timeout=60,
                cwd=cluster.folder,
                env=ENVIRON,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout
    raise AssertionError(f"the page says something that this test does not know: {words}")


def test_a_voter_whose_disk_is_lost_is_replaced_as_the_page_says_and_another_may_then_be_lost(tmp_path: Path) -> None:
    with running_cluster(tmp_path, workers=0) as cluster:
        owner = cluster.wait_for_owner()
        if owner == "node3":  # the page is about a voter that is down: another one owns then
            cluster.kill("node3")
            owner = wait_for("another owner", lambda: ((o := cluster.owner()) != "node3" and o) or None)
        else:
            cluster.kill("node3")
        said = [follow(cluster, words) for words in steps()]
        disk_id = re.findall(r"disk ([0-9a-f]{32})", said[1])[0]
        assert f"disk_id: {disk_id}" in said[3]
        assert re.search(rf"node3 .*{disk_id}", said[4])

        def counts() -> bool:
            voters = {each["name"]: each for each in cluster.json("status")["voters"]}
            return (voters["node3"]["disk_id"], voters["node3"]["suffrage"]) == (disk_id, "voter")

        wait_for("the new disk to count", counts)
        again = cluster.call("voter", "replace", "node3", "--disk", disk_id)
        assert again.returncode == 0, again.stderr
        wrong = cluster.call("voter", "replace", "node3", "--disk", "0" * 32)
        assert wrong.returncode == 1
        assert "is linked" in wrong.stderr
        cluster.kill(owner)
        cluster.wait_for_owner()
        cluster.apply('[[schedule]]\nnamespace = "test"\nname = "after"\nevery = "1h"\ncommand = { argv = ["true"] }\n')
        assert [row["name"] for row in cluster.json("schedules")] == ["after"]
