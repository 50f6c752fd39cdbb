"""docs/recovery.md is followed word by word, on real voters and a worker that dies, hangs, is lost and comes back."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

from tests.processes.cluster import ROOT, Cluster, wait_for
from tests.processes.desk import Desk
from tests.processes.side_effects import LINE, UNTIL_LET_GO, let_go

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

SCHEDULE = """
[[schedule]]
namespace = "billing"
name = "{name}"
every = "1h"
command = {{ argv = ["sh", "-c", '''{script}'''] }}
"""
END_OF_IT = 'kill $(grep -ls "FENCEPOST_RUN_ID=$RUN" /proc/[0-9]*/environ | cut -d/ -f3)'
SCHEDULES = ("close", "report", "ledger")
READS = ("show", "unknown", "status", "runs")


def sections() -> Iterator[tuple[str, list[tuple[str, list[tuple[str, list[str]]]]]]]:
    """Yield each part of the page: its title, and its blocks with each command and what it promises to print."""
    page = (ROOT / "docs" / "recovery.md").read_text()
    for part in page.split("\n## ")[1:]:
        blocks = re.findall(r"^```(console|text)\n(.*?)^```", part, re.DOTALL | re.MULTILINE)
        yield part.splitlines()[0], [(kind, _steps(kind, text)) for kind, text in blocks]


def _steps(kind: str, text: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block with what follows it: in a shell after "$ ", at the console with a credential."""
    steps: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ ") or (kind == "text" and "--credential" in line):
            steps.append((line.removeprefix("$ "), []))
        else:
            steps[-1][1].append(line)
    return steps


class Page:
    """Follows the page's commands in one cluster, as somebody would who reads it at night."""

    def __init__(self, cluster: Cluster, desk: Desk) -> None:
        self.cluster, self.desk = cluster, desk
        self.known: dict[str, str] = {}
        self.followed: list[str] = []

    def follow(self, kind: str, command: str, promised: list[str]) -> None:
        """Carry out one command; what only looks is repeated until it shows what the page promises."""
        self.followed.append(command)
        wanted = [re.compile(self._pattern(line)) for line in promised]
        is_look = shlex.split(command)[0 if kind == "text" else 1] in READS or command.startswith("grep")
        said: list[str] = []

        def done() -> bool:
            said.append(self._said(kind, command))
            lines = iter(said[-1].splitlines())
            return all(any(each.search(line) for line in lines) for each in wanted)

        if is_look:
            wait_for(f"{command} to print {promised}", done)
        else:
            assert done(), (command, promised, said)

    def _pattern(self, line: str) -> str:
        words = [re.escape(word).replace("…", ".*") for word in Template(line).substitute(self.known).split()]
        return r"\s+".join(words)

    def _said(self, kind: str, command: str) -> str:
        if kind == "text":
            return str(self.desk.ask(Template(command).substitute(self.known))["text"])
        words = [Template(word).safe_substitute(self.known) for word in shlex.split(command)]
        match words:
            case ["fencepost", "worker", "--config", "cluster/worker.toml", "&"]:
                self.cluster.start("worker")
                return ""
            case ["fencepost", *rest]:
                done = self.cluster.told(*rest)
            case _:
                done = subprocess.run(
                    ["bash", "-c", command],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    env={**os.environ, **self.known},
                    check=False,
                )
                return done.stdout
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def launch(self, *names: str) -> None:
        """Have a run of each schedule accepted by the worker."""
        for name in names:
            done = self.cluster.told("trigger", f"billing/{name}")
            assert done.returncode == 0, done.stderr
        rows = wait_for("the runs to be accepted", lambda: self._accepted(len(names)))
        attempt = rows[0]["attempts"][-1]
        self.known = {
            "RUN": rows[0]["run_id"],
            "WORKER": attempt["worker"],
            "INCARNATION": attempt["incarnation"],
        }

    def _accepted(self, count: int) -> list[dict[str, object]] | None:
        rows = [row for row in self.cluster.runs() if row["attempts"] and row["attempts"][-1]["state"] == "Accepted"]
        return rows if len(rows) == count else None

    def set_the_scene(self, title: str) -> None:
        match title:
            case "A run is Unknown":
                self.cluster.start("worker")
                self.launch("close")
                self.cluster.kill("worker")
            case "A cancel does not end":
                self.launch("close", "report", "ledger")
                self.signal("worker", signal.SIGSTOP)
                assert self.cluster.told("cancel", self.known["RUN"]).returncode == 0
            case "A worker's host is lost":
                self.cluster.kill("worker")  # the one that hangs, with the two runs that nobody cancelled
                shutil.rmtree(self.cluster.dir / "data" / "worker1")
                let_go(self.cluster.folder)  # nothing of it is alive, as on a host without power
            case "At a runner's own console":
                (self.cluster.folder / "let_go").unlink()
                self.launch("close")
                self.signal("worker", signal.SIGSTOP)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.cluster.processes[name].send_signal(number)


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = Cluster(tmp_path)
    for name in cluster.voters:
        path = cluster.dir / f"{name}.toml"
        path.write_text(path.read_text() + "\n[timing]\ncontact_s = 1.5\n")
    desk = Desk(cluster, "node1")
    try:
        cluster.start(*[name for name in cluster.voters if name != "node1"])
        wait_for("every voter to be ready", lambda: {cluster.is_ready(name) for name in cluster.voters} == {True})
        cluster.wait_for_owner()
        script = f"{LINE}; {UNTIL_LET_GO}"
        cluster.apply("".join(SCHEDULE.format(name=name, script=script) for name in SCHEDULES))
        page = Page(cluster, desk)
        for title, blocks in sections():
            page.set_the_scene(title)
            for kind, steps in blocks:
                for command, promised in steps:
                    page.follow(kind, command, promised)
        assert len(page.followed) > 20
        assert END_OF_IT in page.followed

        # "If it comes back after you attested": the worker of the last part only hung.
        page.signal("worker", signal.SIGCONT)
        wait_for("its word for it", lambda: '"event": "retired"' in cluster.log("worker").read_text())
        page.follow("console", END_OF_IT, [])
        wait_for("the worker to end by itself", lambda: cluster.processes["worker"].poll() is not None)
        page.follow("console", "fencepost show $RUN --config cluster/recovery.toml", ["state  Quiesced"])
    finally:
        let_go(tmp_path)
        if "worker" in cluster.processes:
            page.signal("worker", signal.SIGCONT)
        cluster.stop()
        desk.close()
