"""Three real voters with a console each: what comes in on standard input, what it does, and what it never half-does."""

import fcntl
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.processes.cluster import Cluster, wait_for
from tests.processes.desk import Desk
from tests.processes.side_effects import LINE, command_schedule

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

OPERATOR, RECOVERY = "cluster/credentials/operator.token", "cluster/credentials/recovery.token"


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
    desks: dict[str, Desk] = {}
    try:
        desks |= {name: Desk(cluster, name) for name in cluster.voters}
        wait_for("every voter to be ready", lambda: {cluster.is_ready(name) for name in cluster.voters} == {True})
        owner = cluster.wait_for_owner()
        other, third = (name for name in cluster.voters if name != owner)
        at_owner, at_other, at_third = desks[owner], desks[other], desks[third]

        # The owner's console: an operator's commands, under no credential.
        cluster.apply(command_schedule("job", LINE, every="1h"))
        run_id = ended_well(at_owner.ask('{"command": "trigger", "schedule": "test/job"}'))["run_id"]
        assert run_in(at_other, "Pending", run_id), "there is no worker"
        assert ended_well(at_owner.ask("status"))["owner"] == owner

        # What is no whole, legal line does nothing, and each has its one answer.
        broken = [b"cancel \0" + run_id.encode(), b"cancel \xff", b'{"command": "cancel",', b"x" * (10 << 20)]
        at_owner.write(b"\n".join([*broken, b""]))
        assert [at_owner.answer()["certainty"] for _ in broken] == ["not_done"] * len(broken)
        assert run_in(at_owner, "Pending", run_id)

        # Another voter's console shows what it has, and passes on only what carries a credential.
        wait_for("the run here", lambda: [each["run_id"] for each in ended_well(at_other.ask("runs"))] == [run_id])
        refused = at_other.ask(f"cancel {run_id}")
        assert (refused["certainty"], owner in refused["problem"]["detail"]) == ("not_done", True)
        words = f"attest {run_id} 1 --attester Rita --statement off --evidence none"
        assert at_other.ask(f"{words} --credential {OPERATOR}")["problem"]["status"] == 403
        assert at_other.ask(f"{words} --credential {RECOVERY}")["problem"]["status"] == 404
        assert ended_well(at_other.ask(f"cancel {run_id} --credential {OPERATOR}"))["state"] == "Cancelled"

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
        assert {desk.process.returncode for desk in desks.values()} <= {0}, "a console held up the end of its voter"
        for desk in desks.values():
            desk.close()
