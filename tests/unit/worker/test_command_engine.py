"""Real processes on this host; every wait is for an event, with a limit far above what it takes."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.world import claim
from worker.capability import MINT, CapabilityMisuse, LaunchCapability
from worker.engine import host
from worker.engine.base import Refused, Trace
from worker.engine.command import CommandEngine
from worker.engine.output import MAX_FILE_BYTES
from worker.engine.process import CommandWork, Limits
from worker.outcome import Outcome
from worker.protocol import CommandTarget

pytestmark = pytest.mark.processes
LIMITS = Limits(stop_grace_s=5.0, leftover_grace_s=5.0, drain_s=0.2)
HOST_ENV = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C", "SECRET": "not passed on"}


class HostClock:
    def mono_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


def engine(folder: Path, limits: Limits = LIMITS) -> CommandEngine:
    return CommandEngine(folder / "output", host_env=HOST_ENV, clock=HostClock(), limits=limits)


async def start(folder: Path, *argv: str, limits: Limits = LIMITS, **target: object) -> CommandWork:
    run_id = folder.name
    made = claim((run_id, 1), incarnation="i", ledger="l", target=CommandTarget(argv=argv, **target))  # type: ignore[arg-type]
    return await engine(folder, limits).submit(LaunchCapability(run_id, 1, 7, mint=MINT), made)


async def shell(folder: Path, script: str, **options: object) -> Outcome:
    work = await start(folder, "sh", "-c", script, **options)  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        return await work.observe()


def fifo(folder: Path) -> Path:
    """A named pipe through which a command says that it has come so far."""
    path = folder / "so-far"
    os.mkfifo(path)
    return path


async def up(path: Path) -> None:
    """Wait until a command has written to its named pipe."""
    assert await asyncio.to_thread(path.read_text) == "up\n"


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def living(folder: Path) -> list[host.Process]:
    """Return what is alive of a test's command, whose run id is the name of its folder."""
    return host.marked(folder.name, 1)


def output(folder: Path, kind: str = "out") -> Path:
    return folder / "output" / f"{folder.name}.1.{kind}"


@pytest.fixture(autouse=True)
def nothing_left(folder: Path) -> Iterator[None]:
    """End what a failed test leaves, so that it disturbs no other one."""
    yield
    for each in living(folder):
        host.send(each, signal.SIGKILL)


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
        await start(folder, *argv, **target)  # type: ignore[arg-type]
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


async def test_c50_a_stop_ends_children_and_grandchildren(folder: Path) -> None:
    so_far = fifo(folder)
    work = await start(folder, "sh", "-c", f'sleep 1000 & sh -c "sleep 1000 & echo up > {so_far}; wait" & wait')
    await up(so_far)
    assert len(living(folder)) == 4
    work.stop()
    work.stop()
    async with asyncio.timeout(60):
        outcome = await work.observe()
    assert (outcome.succeeded, outcome.exit_code) == (False, -signal.SIGTERM)
    assert living(folder) == []


async def test_c50_a_child_that_left_the_session_is_ended_too(folder: Path) -> None:
    so_far = fifo(folder)
    work = await start(folder, "sh", "-c", f"setsid sh -c 'echo up > {so_far}; sleep 1000' & wait")
    await up(so_far)
    work.stop()
    async with asyncio.timeout(60):
        await work.observe()
    assert living(folder) == []


async def test_a_stop_is_felt_by_what_ignores_sigterm_after_the_grace(folder: Path) -> None:
    so_far = fifo(folder)
    deaf = f"trap '' TERM; echo up > {so_far}; while :; do sleep 1; done"
    script = f'trap "" TERM; sh -c "{deaf}" & while :; do wait; done'
    work = await start(folder, "sh", "-c", script, limits=Limits(stop_grace_s=0.1, drain_s=0.2))
    await up(so_far)
    work.stop()
    async with asyncio.timeout(60):
        outcome = await work.observe()
    assert outcome.exit_code == -signal.SIGKILL
    assert living(folder) == []


async def test_a_stop_leaves_time_to_clean_up(folder: Path) -> None:
    so_far = fifo(folder)
    script = f"trap 'echo cleaned; exit 0' TERM; echo up > {so_far}; while :; do sleep 0.05; done"
    work = await start(folder, "sh", "-c", script)
    await up(so_far)
    work.stop()
    async with asyncio.timeout(60):
        outcome = await work.observe()
    assert not outcome.succeeded, "it was stopped, whatever it says"
    assert outcome.exit_code == 0
    assert "cleaned" in output(folder).read_text()


async def test_c52a_a_grandchild_that_holds_stdout_does_not_hang_it(folder: Path) -> None:
    outcome = await shell(folder, "sleep 300 & echo hi; exit 0")
    assert outcome.succeeded
    assert output(folder).read_text() == "hi\n"
    assert "1 process(es) it left running were ended" in outcome.evidence
    assert living(folder) == []


async def test_c52a_one_that_cannot_be_traced_is_waited_for_only_so_long(folder: Path) -> None:
    so_far = fifo(folder)
    escape = f"setsid env -i sh -c 'echo $$ > {so_far}; exec sleep 300' & read pid < {so_far}; echo $pid"
    outcome = await shell(folder, escape)
    assert outcome.succeeded
    assert "still held its output open" in outcome.evidence
    escaped = host.process(int(output(folder).read_text()))
    assert escaped is not None
    assert escaped.alive
    host.send(escaped, signal.SIGKILL)


async def test_c52b_a_timeout_ends_the_tree(folder: Path) -> None:
    outcome = await shell(folder, "sleep 300 & wait", timeout_ms=100)
    assert (outcome.succeeded, outcome.reason) == (False, "timeout")
    assert living(folder) == []


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
    assert "no process of its session" in engine(folder).prove(trace)
    restarted = Trace(folder.name, 1, f"another-boot/{pid}/{started}")
    assert "nothing of it is alive" in engine(folder).prove(restarted)


def test_a_stranger_under_the_same_pid_is_not_signalled() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    found = host.process(child.pid)
    assert found is not None
    older = host.Process(found.pid, found.group, found.session, found.started_ticks - 1, alive=True)
    host.send(older, signal.SIGKILL)
    host.send(found, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM, "SIGKILL would have come first"
    host.send(found, signal.SIGKILL)


LAUNCHER = """
import asyncio, os, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.unit.worker.test_command_engine import start
async def main():
    folder = Path(sys.argv[1])
    script = 'read go; echo "$(head -c 300000 /dev/zero | tr "\\\\0" x)"; echo done > ' + str(folder / "done")
    await start(folder, "sh", "-c", script.replace("read go", "read go < " + str(folder / "go")))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def test_after_kill_9_of_the_worker_the_command_runs_on(folder: Path) -> None:
    """It writes far more than a pipe usually holds to an output that nobody reads any more."""
    os.mkfifo(folder / "go")
    root = Path(__file__).parents[3]
    worker = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", LAUNCHER, str(folder), str(root)], check=False, capture_output=True
    )
    assert worker.returncode == -signal.SIGKILL, worker.stderr
    (orphan,) = living(folder)
    handle = os.pidfd_open(orphan.pid)
    (folder / "go").write_text("go\n")
    ended, _, _ = await asyncio.to_thread(select.select, [handle], [], [], 60)
    os.close(handle)
    assert ended
    assert (folder / "done").read_text() == "done\n"
