"""A real runner's console, as a program uses it: lines in, one JSON object a line out."""

import json
import subprocess
from typing import Any

from tests.processes.cluster import ENVIRON, FENCEPOST, Cluster


class Desk:
    """One voter's process with its standard input and output in our hands; its log is the cluster's as of every other."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        with cluster.log(name).open("ab") as log:
            self.process = subprocess.Popen(
                [*FENCEPOST, "runner", "--config", str(cluster.dir / f"{name}.toml")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=cluster.folder,
                env=ENVIRON,
                start_new_session=True,
            )
        cluster.processes[name] = self.process
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout

    def write(self, raw: bytes) -> None:
        self.input.write(raw)
        self.input.flush()

    def answer(self) -> dict[str, Any]:
        return json.loads(self.output.readline())

    def ask(self, line: str) -> dict[str, Any]:
        self.write(line.encode() + b"\n")
        return self.answer()

    def close(self) -> None:
        self.input.close()
        self.output.close()
