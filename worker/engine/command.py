"""The command engine: runs argv as a process tree in a session of its own, never through a shell of ours."""

import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from worker.capability import LaunchCapability
from worker.engine import host
from worker.engine.base import Refused, SubmissionUnknown, Trace
from worker.engine.output import Pipe
from worker.engine.process import CommandWork, Limits
from worker.outcome import Receipt
from worker.ports import Clock
from worker.protocol import Claim

PASSED_ON: Final = ("PATH", "HOME", "LANG", "TZ")


class CommandEngine:
    """Starts commands on this host: implements `base.Engine`.

    `submit` has no await between its first and its last line, so nothing of this process can come between.
    """

    def __init__(
        self, output_dir: Path, *, host_env: Mapping[str, str], clock: Clock, limits: Limits | None = None
    ) -> None:
        """Keep where output goes and the variables of the host, of which only `PASSED_ON` reach a command."""
        self._output_dir = output_dir
        self._host_env = MappingProxyType({name: host_env[name] for name in PASSED_ON if name in host_env})
        self._clock = clock
        self._limits = limits if limits is not None else Limits()

    async def submit(self, capability: LaunchCapability, claim: Claim) -> CommandWork:
        """Start the command of a claim (see `base.Engine`)."""
        binding = claim.binding
        token = capability.spend(binding.run_id, binding.attempt)
        with ExitStack() as undo:
            pipes = self._pipes(f"{binding.run_id}.{binding.attempt}", undo)
            started_ms = self._clock.wall_ms()
            process = _start(claim, {**self._host_env, **environment(claim, token)}, pipes)
            work = self._watch(process, pipes, claim, started_ms)
            for pipe in pipes:
                pipe.start()
            undo.pop_all()
            return work

    def prove(self, trace: Trace) -> str:
        """Say which processes of an earlier life's attempt are alive (see `base.Engine`)."""
        if trace.execution_id is None:
            return _alive_words([each.pid for each in host.marked(trace.run_id, trace.attempt)])
        boot, pid, started = trace.execution_id.split("/")
        if boot != host.boot_id():
            return "the host was restarted since (its boot id changed): nothing of it is alive"
        mark = host.Mark(leader=int(pid), started_ticks=int(started), run_id=trace.run_id, attempt=trace.attempt)
        return f"it was process {pid}; " + _alive_words([each.pid for each in host.members(mark)])

    def _pipes(self, name: str, undo: ExitStack) -> list[Pipe]:
        pipes = []
        try:
            self._output_dir.mkdir(mode=0o700, exist_ok=True)
            for kind in ("out", "err"):
                pipe = Pipe.into(self._output_dir / f"{name}.{kind}")
                undo.callback(pipe.close)
                pipes.append(pipe)
        except OSError as fault:
            raise Refused(f"its output cannot be kept in {self._output_dir}: {fault.strerror}") from fault
        return pipes

    def _watch(
        self, process: subprocess.Popen[bytes], pipes: Sequence[Pipe], claim: Claim, started_ms: int
    ) -> CommandWork:
        """Take the started process under observation; one that cannot be watched is ended as far as possible."""
        binding, target = claim.binding, claim.target
        try:
            born = host.process(process.pid)
            if born is None:
                raise OSError(errno.ENOENT, "it is not in /proc")  # noqa: TRY301 - one way out for all that can fail
            return CommandWork(
                process,
                pipes,
                mark=host.Mark(process.pid, born.started_ticks, binding.run_id, binding.attempt),
                receipt=Receipt(f"{host.boot_id()}/{process.pid}/{born.started_ticks}", started_ms),
                timeout_s=target.timeout_ms / 1000 if target.timeout_ms is not None else None,
                limits=self._limits,
                clock=self._clock,
            )
        except OSError as fault:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise SubmissionUnknown(
                f"it was started, could not be watched ({fault.strerror}) and was killed: what it did is not known"
            ) from fault


def environment(claim: Claim, token: int) -> dict[str, str]:
    """Return the variables that a claim brings; the schedule's own never hide those of FENCEPOST_*."""
    binding = claim.binding
    return {
        **claim.target.env,
        "FENCEPOST_NAMESPACE": binding.namespace,
        "FENCEPOST_SCHEDULE": claim.schedule,
        "FENCEPOST_SCHEDULE_ID": binding.schedule_id,
        "FENCEPOST_SCHEDULED_FOR": claim.scheduled_for,
        "FENCEPOST_RUN_ID": binding.run_id,
        "FENCEPOST_ATTEMPT": str(binding.attempt),
        "FENCEPOST_FENCING_TOKEN": str(token),
        "FENCEPOST_IDEMPOTENCY_KEY": claim.idempotency_key,
    }


def _start(claim: Claim, env: Mapping[str, str], pipes: Sequence[Pipe]) -> subprocess.Popen[bytes]:
    """Start the process; its failure to execute is known before this returns."""
    target = claim.target
    out, err = pipes
    try:
        return subprocess.Popen(  # noqa: S603 - argv comes from an operator's schedule; running it is the product
            target.argv,
            cwd=target.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out.theirs,
            stderr=err.theirs,
            start_new_session=True,
        )
    except OSError as fault:
        raise Refused(f"{fault.filename or target.argv[0]}: {fault.strerror}") from fault
    except ValueError as fault:  # a NUL byte or "=" where execve allows none
        raise Refused(f"its argv, environment or cwd cannot be passed to the system: {fault}") from fault


def _alive_words(pids: Sequence[int]) -> str:
    if not pids:
        return "no process of its session, group or environment is alive now; what it did is not known"
    return f"alive now: process(es) {', '.join(map(str, pids[:20]))}"
