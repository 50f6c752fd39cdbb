"""The command engine: runs argv as a process tree in a session of its own, never through a shell of ours."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Final

from worker.capability import LaunchCapability
from worker.engine import host
from worker.engine.base import Refused, Trace
from worker.engine.keeping import Keeper
from worker.engine.output import Pipe
from worker.engine.process import CommandWork, Limits
from worker.outcome import Receipt
from worker.ports import Clock
from worker.protocol import Claim

PASSED_ON: Final = ("PATH", "HOME", "LANG", "TZ")


class CommandEngine:
    """Starts commands on this host, each under a keeper of its own: implements `base.Engine`."""

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
        key = (binding.run_id, binding.attempt)
        token = capability.spend(*key)
        with ExitStack() as undo:
            out, err = self._pipes(f"{binding.run_id}.{binding.attempt}", undo)
            env = {**self._host_env, **environment(claim, token)}
            started_ms = self._clock.wall_ms()
            keeper = Keeper.start(claim.target, env, (out, err), host.keeper_name(*key), self._clock)
            for pipe in (out, err):
                pipe.start()
            await keeper.started()
            undo.pop_all()
        pid, ticks = keeper.command
        timeout_ms = claim.target.timeout_ms
        return CommandWork(
            keeper,
            (out, err),
            key=key,
            receipt=Receipt(f"{host.boot_id()}/{pid}/{ticks}", started_ms),
            timeout_s=timeout_ms / 1000 if timeout_ms is not None else None,
            limits=self._limits,
            clock=self._clock,
        )

    def reattach(self, trace: Trace) -> None:
        """Take nothing up: a command's exit status goes to the process that started it, and to no other."""

    def prove(self, trace: Trace) -> str:
        """Say which processes of an earlier life's attempt are alive (see `base.Engine`)."""
        if trace.execution_id is None:
            return _alive_words(host.traces(trace.run_id, trace.attempt, None))
        boot, pid, started = trace.execution_id.split("/")
        if boot != host.boot_id():
            return "the host was restarted since (its boot id changed): nothing of it is alive"
        alive = host.traces(trace.run_id, trace.attempt, (int(pid), int(started)))
        return f"it was process {pid}; {_alive_words(alive)}"

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


def _alive_words(alive: Sequence[host.Process]) -> str:
    if not alive:
        return "no process of its tree, session, group or environment is alive now; what it did is not known"
    return f"alive now: process(es) {', '.join(str(each.pid) for each in alive[:20])}"
