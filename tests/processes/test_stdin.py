"""Three real voters with a console each: what comes in on standard input, what it does, and what it never half-does."""

import fcntl
import json
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.processes.cluster import ENVIRON, FENCEPOST, Cluster, wait_for
from tests.processes.side_effects import LINE, command_schedule

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

OPERATOR, RECOVERY = "cluster/credentials/operator.token", "cluster/credentials/recovery.token"


class Desk:
    """One voter's console, as a program uses it: lines in, one JSON object a line out."""

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


def ended_well(answer: dict[str, Any]) -> Any:
    assert answer["certainty"] == "done", answer
    return answer["answer"]


def held(desk: Desk) -> int:
    """Return how many bytes of answers wait in a console's output pipe."""
    return int(struct.unpack("i", fcntl.ioctl(desk.output, termios.FIONREAD, b"\0" * 4))[0])


def run_in(desk: Desk, state: str, run_id: str) -> Any:
    shown = ended_well(desk.ask(f"show {run_id} --credential {OPERATOR}"))
    return shown if shown["state"] == state else None


def test_lines_on_standard_input_enter_the_same_loop_and_never_half_do_anything(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        desks = {name: Desk(cluster, name) for name in cluster.voters}
        wait_for("every voter to be ready", lambda: {cluster.is_ready(name) for name in cluster.voters} == {True})
        cluster.start("worker")
        owner = cluster.wait_for_owner()
        other, third = (name for name in cluster.voters if name != owner)
        at_owner, at_other, at_third = desks[owner], desks[other], desks[third]

        # The owner's console: an operator's commands, under no credential.
        cluster.apply(command_schedule("job", f"{LINE}; sleep 300", every="1h"))
        run_id = ended_well(at_owner.ask('{"command": "trigger", "schedule": "test/job"}'))["run_id"]
        wait_for("the run", lambda: run_in(at_other, "Active", run_id))
        assert ended_well(at_owner.ask("status"))["owner"] == owner

        # What is no whole, legal line does nothing, and each has its one answer.
        broken = [b"cancel \0" + run_id.encode(), b"cancel \xff", b'{"command": "cancel",', b"x" * (10 << 20)]
        at_owner.write(b"\n".join([*broken, b""]))
        assert [at_owner.answer()["certainty"] for _ in broken] == ["not_done"] * len(broken)
        assert run_in(at_owner, "Active", run_id)

        # Another voter's console shows what it has, and passes on only what carries a credential.
        assert ended_well(at_other.ask("runs"))[0]["run_id"] == run_id
        refused = at_other.ask(f"cancel {run_id}")
        assert (refused["certainty"], owner in refused["problem"]["detail"]) == ("not_done", True)
        words = f"attest {run_id} 1 --attester Rita --statement off --evidence none"
        assert at_other.ask(f"{words} --credential {OPERATOR}")["problem"]["status"] == 403
        assert at_other.ask(f"{words} --credential {RECOVERY}")["problem"]["reason"] == "illegal_move"
        assert ended_well(at_other.ask(f"cancel {run_id} --credential {OPERATOR}"))["state"] == "Cancelling"
        wait_for("Cancelled", lambda: run_in(at_other, "Cancelled", run_id))

        # An end in mid-line, and an output that is gone, end the console and not its voter.
        at_other.input.write(b"trigger test/job")
        at_other.input.close()
        assert "ended before the line" in at_other.answer()["problem"]["detail"]
        assert at_other.output.read(0) == b""
        at_third.output.close()
        at_third.write(b"status\nstatus\n")
        for name, word in ((other, "input ended"), (third, "the console ended")):
            wait_for(f"{name} to say so", lambda name=name, word=word: word in cluster.log(name).read_text())

        # Answers that nobody reads hold up their console alone: its input fills up, and the owner goes on.
        with subprocess.Popen(["yes", "status"], stdout=at_owner.input) as endless:
            try:
                looks = [0]
                wait_for("a full pipe", lambda: looks.append(held(at_owner)) or looks[-1] == looks[-2] > 32_000)
                second = cluster.told("disable", "test/job")
                assert second.returncode == 0, second.stderr
            finally:
                endless.kill()
        assert len(cluster.runs()) == 1, "half a line was acted on"
        assert all(cluster.processes[name].poll() is None for name in cluster.voters)
    finally:
        cluster.stop()
        for process in cluster.processes.values():
            for end in (process.stdin, process.stdout):
                if end is not None:
                    end.close()
