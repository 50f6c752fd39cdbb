"""The whole tree of a command ends with it, whatever a part of it did to get away; real processes on this host."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.worker.commands import beside, engine, fifo, is_alive, living, output, pid_from, shell, start, up
from worker.engine import host
from worker.engine.base import OutcomeUnknown, Trace
from worker.engine.process import CommandWork, Limits
from worker.outcome import Outcome

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("nothing_left")]

SESSION = "setsid env -i sh -c 'echo $$ > {so_far}; exec sleep 303' >/dev/null 2>&1 &"
"""Leaves session, group, environment and output, and says its pid once it has."""
DAEMON = """setsid env -i sh -c '(setsid sh -c "echo \\$\\$ > {so_far}; exec sleep 303" &)' >/dev/null 2>&1;"""
"""The same, and its parents end at once: an orphan."""
DEAF = "setsid env -i sh -c 'trap \"\" TERM HUP; echo $$ > {so_far}; while :; do sleep 1; done' >/dev/null 2>&1 &"
"""As the first, and SIGTERM does not end it."""
HEIRS = "setsid env -i sh -c 'trap \"\" TERM; echo $$ > {so_far}; live() {{ sleep 0.01; live & exit; }}; live' >/dev/null 2>&1 &"
"""As the first, and it is forever replaced by a child of its own."""
ESCAPES = pytest.mark.parametrize("escape", [SESSION, DAEMON, DEAF, HEIRS], ids=["session", "daemon", "deaf", "heirs"])
SHORT = Limits(stop_grace_s=0.2, leftover_grace_s=0.2, drain_s=0.2)


async def end_of(work: CommandWork) -> Outcome:
    async with asyncio.timeout(60):
        return await work.observe()


@ESCAPES
async def test_c50_an_escapee_ends_with_a_stop(folder: Path, escape: str) -> None:
    so_far = fifo(folder)
    work = await start(folder, "sh", "-c", f"{escape.format(so_far=so_far)} sleep 600", limits=SHORT)
    escaped = await pid_from(so_far)
    work.stop()
    outcome = await end_of(work)
    assert (outcome.succeeded, outcome.reason) == (False, "exit")
    assert not is_alive(escaped)
    assert living(folder) == []


@ESCAPES
async def test_c50_an_escapee_ends_with_a_timeout(folder: Path, escape: str) -> None:
    so_far = fifo(folder)
    script = f"{escape.format(so_far=so_far)} sleep 600"
    work = await start(folder, "sh", "-c", script, limits=SHORT, timeout_ms=1_000)
    escaped, outcome = await asyncio.gather(pid_from(so_far), end_of(work))
    assert (outcome.succeeded, outcome.reason) == (False, "timeout")
    assert not is_alive(escaped)
    assert living(folder) == []


@ESCAPES
async def test_c50_an_escapee_ends_with_its_command(folder: Path, escape: str) -> None:
    so_far, go = fifo(folder), folder / "go"
    os.mkfifo(go)
    work = await start(folder, "sh", "-c", f"{escape.format(so_far=so_far)} read go < {go}", limits=SHORT)
    escaped = await pid_from(so_far)
    await asyncio.to_thread(go.write_text, "go\n")
    outcome = await end_of(work)
    assert outcome.succeeded
    assert "it left running were ended" in outcome.evidence
    assert not is_alive(escaped)
    assert living(folder) == []


async def test_two_attempts_at_once_never_end_each_others_processes(folder: Path) -> None:
    folders = [folder / "one", folder / "two"]
    works, escaped = [], []
    for each in folders:
        each.mkdir()
        so_far = fifo(each)
        works.append(await start(each, "sh", "-c", f"{DAEMON.format(so_far=so_far)} sleep 600"))
        escaped.append(await pid_from(so_far))
    trees = [{each.pid for each in living(one)} for one in folders]
    assert escaped[0].pid in trees[0]
    assert trees[0].isdisjoint(trees[1])
    works[0].stop()
    await end_of(works[0])
    assert living(folders[0]) == []
    assert {each.pid for each in living(folders[1])} == trees[1], "all of the other is alive"
    works[1].stop()
    await end_of(works[1])
    assert [is_alive(each) for each in escaped] == [False, False]


async def test_a_child_of_the_worker_itself_is_left_alone(folder: Path) -> None:
    own = beside("sleep", "1000")
    await shell(folder, "sleep 300 & exit 0")
    assert own.poll() is None
    own.kill()
    own.wait()


async def test_a_tree_that_lost_its_keeper_has_no_outcome(folder: Path) -> None:
    so_far, first = fifo(folder), folder / "first"
    os.mkfifo(first)
    script = f"{SESSION.format(so_far=first)} read pid < {first}; kill -KILL $PPID; echo $pid > {so_far}; sleep 600"
    work = await start(folder, "sh", "-c", script, limits=SHORT)
    escaped = await pid_from(so_far)
    with pytest.raises(OutcomeUnknown, match=r"kept its tree together .* was killed"):
        await end_of(work)
    assert living(folder) == [], "what can be found was ended"
    assert is_alive(escaped), "what cannot be found is the reason"
    host.send(escaped, signal.SIGKILL)


@pytest.mark.parametrize("stopped", [True, False])
async def test_what_sigkill_does_not_end_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, stopped: bool
) -> None:
    so_far = fifo(folder)
    limits = Limits(stop_grace_s=0.0, leftover_grace_s=0.0, kill_s=0.1, drain_s=0.2)
    script = SESSION.format(so_far=so_far) + ("sleep 600" if stopped else " exit 0")
    work = await start(folder, "sh", "-c", script, limits=limits)
    escaped = await pid_from(so_far)
    monkeypatch.setattr(host, "_signal", lambda *_: None)  # as if stuck in the kernel, or another user's
    if stopped:
        work.stop()
    with pytest.raises(OutcomeUnknown, match=rf"not ended by SIGKILL within 0 s: alive: .*\b{escaped.pid}\b"):
        await end_of(work)
    monkeypatch.undo()
    for each in living(folder):
        host.send(each, signal.SIGKILL)
    await work._keeper.over.wait()


async def test_a_process_outside_the_tree_that_holds_the_output_is_named(folder: Path) -> None:
    so_far, go = fifo(folder), folder / "go"
    os.mkfifo(go)
    work = await start(folder, "sh", "-c", f"echo $$ > {so_far}; read go < {go}")
    command = await pid_from(so_far)
    outsider = beside("sleep", "1000", stdout=Path(f"/proc/{command.pid}/fd/1"))
    await asyncio.to_thread(go.write_text, "go\n")
    with pytest.raises(OutcomeUnknown, match=rf"still holds its output open: process\(es\) {outsider.pid}$"):
        await end_of(work)
    assert outsider.poll() is None, "it is not ours to end"
    outsider.kill()
    outsider.wait()


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


async def test_c52b_a_timeout_ends_the_tree(folder: Path) -> None:
    outcome = await shell(folder, "sleep 300 & wait", timeout_ms=100)
    assert (outcome.succeeded, outcome.reason) == (False, "timeout")
    assert living(folder) == []


LAUNCHER = """
import asyncio, os, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.unit.worker.commands import start
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


GONE = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.unit.worker.commands import start
async def main():
    await start(Path(sys.argv[1]), "sh", "-c", sys.argv[3])
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.parametrize("receipt", [True, False], ids=["receipt kept", "no receipt"])
async def test_after_kill_9_of_the_worker_the_next_life_sees_the_whole_tree(folder: Path, *, receipt: bool) -> None:
    so_far = fifo(folder)
    script = f"{DAEMON.format(so_far=so_far)} exec sleep 600"
    arguments = [sys.executable, "-c", GONE, str(folder), str(Path(__file__).parents[3]), script]
    gone = beside(*arguments)
    escaped = await pid_from(so_far)
    assert await asyncio.to_thread(gone.wait) == -signal.SIGKILL
    (command,) = (each for each in living(folder) if each.pid != escaped.pid)
    execution_id = f"{host.boot_id()}/{command.pid}/{command.started_ticks}" if receipt else None
    proof = engine(folder).prove(Trace(folder.name, 1, execution_id))
    assert {str(command.pid), str(escaped.pid)} == set(proof.rpartition("process(es) ")[2].split(", "))
