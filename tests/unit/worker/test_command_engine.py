"""How a command starts, what it is given, and what is kept of it; real processes on this host."""

import asyncio
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.worker.commands import engine, fifo, handles, output, shell, start, up
from tests.unit.worker.world import claim
from worker.capability import MINT, CapabilityMisuse, LaunchCapability
from worker.engine import host
from worker.engine.base import Refused, Trace
from worker.engine.output import MAX_FILE_BYTES
from worker.protocol import CommandTarget

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("nothing_left")]


async def test_success_with_its_output_and_environment(folder: Path) -> None:
    outcome = await shell(folder, "env; echo to-err >&2", env={"MINE": "1", "FENCEPOST_RUN_ID": "hidden"})
    assert (outcome.succeeded, outcome.reason, outcome.exit_code, outcome.tail) == (True, None, 0, "")
    lines = output(folder).read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines)
    for name in ("PWD", "SHLVL", "_", "OLDPWD"):
        env.pop(name, None)  # the shell's own
    assert env == {
        "PATH": os.environ["PATH"],
        "HOME": "/tmp",
        "LANG": "C",
        "MINE": "1",
        "FENCEPOST_NAMESPACE": "demo",
        "FENCEPOST_SCHEDULE": "close",
        "FENCEPOST_SCHEDULE_ID": "s",
        "FENCEPOST_SCHEDULED_FOR": "2026-01-01T00:00:00Z",
        "FENCEPOST_RUN_ID": folder.name,
        "FENCEPOST_ATTEMPT": "1",
        "FENCEPOST_FENCING_TOKEN": "7",
        "FENCEPOST_IDEMPOTENCY_KEY": "k" * 64,
    }
    assert output(folder, "err").read_text() == "to-err\n"


async def test_argv_goes_through_no_shell_and_cwd_is_taken(folder: Path) -> None:
    work = await start(folder, "printf", "%s|", "$HOME", "a b", "*", cwd=str(folder))
    assert (await work.observe()).succeeded
    assert output(folder).read_text() == "$HOME|a b|*|"


async def test_without_a_cwd_it_runs_where_the_worker_does(folder: Path) -> None:
    assert (await shell(folder, "pwd -P")).succeeded
    assert output(folder).read_text() == f"{Path.cwd()}\n"


async def test_failure_with_exit_code_and_tail(folder: Path) -> None:
    outcome = await shell(folder, "echo out; echo 'it broke' >&2; exit 3")
    assert (outcome.succeeded, outcome.reason, outcome.exit_code, outcome.tail) == (False, "exit", 3, "it broke")


async def test_ended_by_a_signal(folder: Path) -> None:
    outcome = await shell(folder, "kill -KILL $$")
    assert (outcome.succeeded, outcome.reason, outcome.exit_code) == (False, "exit", -9)


@pytest.mark.parametrize(
    ("argv", "target", "why"),
    [
        (("no-such-program-here",), {}, "No such file"),
        (("/etc/passwd",), {}, "Permission denied"),
        (("true",), {"cwd": "/no/such/folder"}, "/no/such/folder: No such file"),
        (("echo", "a\0b"), {}, "cannot be passed"),
        (("true",), {"env": {"A=B": "c"}}, "cannot be passed"),
        (("true", "x" * (4 << 20)), {}, "too long"),
    ],
)
async def test_what_cannot_start_is_refused(
    folder: Path, argv: tuple[str, ...], target: dict[str, object], why: str
) -> None:
    before = handles()
    with pytest.raises(Refused, match=why):
        await start(folder, *argv, **target)
    assert handles() == before


async def test_output_that_cannot_be_kept_is_refused_before_anything_starts(folder: Path) -> None:
    (folder / "output").touch()
    with pytest.raises(Refused, match="output cannot be kept"):
        await start(folder, "touch", str(folder / "started"))
    assert not (folder / "started").exists()


async def test_a_spent_capability_starts_nothing(folder: Path) -> None:
    made = claim(("r1", 1), incarnation="i", ledger="l", target=CommandTarget(argv=("touch", str(folder / "started"))))
    capability = LaunchCapability("r1", 1, 7, mint=MINT)
    capability.spend("r1", 1)
    with pytest.raises(CapabilityMisuse):
        await engine(folder).submit(capability, made)
    assert not (folder / "started").exists()


async def test_c52c_a_flood_is_cut_and_the_exit_code_is_kept(folder: Path) -> None:
    outcome = await shell(folder, "echo first; head -c 20000000 /dev/zero; echo last; exit 5")
    assert (outcome.reason, outcome.exit_code) == ("exit", 5)
    kept = output(folder).read_bytes()
    assert len(kept) <= MAX_FILE_BYTES
    assert kept.startswith(b"first\n")
    assert kept.endswith(b"last\n")
    assert b"bytes cut here]" in kept


async def test_nothing_is_left_open(folder: Path) -> None:
    await shell(folder, "true")
    before = handles()
    for _ in range(5):
        await shell(folder, "echo hi")
    assert handles() == before


async def test_the_receipt_names_the_process_and_proves_its_end(folder: Path) -> None:
    so_far = fifo(folder)
    work = await start(folder, "sh", "-c", f"echo up > {so_far}; sleep 1000")
    await up(so_far)
    boot, pid, started = work.receipt.execution_id.split("/")
    assert boot == host.boot_id()
    found = host.process(int(pid))
    assert found is not None
    assert found.started_ticks == int(started)
    trace = Trace(folder.name, 1, work.receipt.execution_id)
    assert f"alive now: process(es) {pid}" in engine(folder).prove(trace)
    assert f"alive now: process(es) {pid}" in engine(folder).prove(Trace(folder.name, 1, None)), (
        "found by its environment"
    )
    work.stop()
    await work.observe()
    assert "no process of its tree" in engine(folder).prove(trace)
    restarted = Trace(folder.name, 1, f"another-boot/{pid}/{started}")
    assert "nothing of it is alive" in engine(folder).prove(restarted)


def test_a_stranger_under_the_same_pid_is_not_signalled() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    found = host.process(child.pid)
    assert found is not None
    older = replace(found, started_ticks=found.started_ticks - 1)
    host.send(older, signal.SIGKILL)
    host.send(found, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM, "SIGKILL would have come first"
    host.send(found, signal.SIGKILL)


async def test_a_command_meets_the_signals_of_its_host_and_cannot_end_its_keeper(folder: Path) -> None:
    """Its keeper ignores signals and the worker's Python ignores SIGPIPE: neither is the command's."""
    show = ["grep", "^Sig[IB]", "/proc/self/status"]
    expected = await asyncio.to_thread(subprocess.run, show, capture_output=True, check=True)
    outcome = await shell(
        folder,
        "for name in HUP INT QUIT TERM USR1 USR2; do kill -$name $PPID; done; exec grep ^Sig[IB] /proc/self/status",
    )
    assert outcome.succeeded
    assert _numbers(output(folder).read_bytes()) == _numbers(expected.stdout)


def _numbers(status: bytes) -> list[int]:
    """Return the masks, without the two signals that the C library keeps to itself (posix_spawn ignores them)."""
    return [int(line.split()[1], 16) & ~(0b11 << 31) for line in status.splitlines()]
