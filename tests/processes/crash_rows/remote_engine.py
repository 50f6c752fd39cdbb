"""An engine whose work lives elsewhere and can be asked about by name: files in the test's folder stand for the far end.

The product has no such engine yet; its workers have what one needs. A job is a file, made once; it ends when the test
lets it go, or once it was asked to stop.
"""

import asyncio
from pathlib import Path
from typing import Any

from worker.capability import LaunchCapability
from worker.engine.base import Trace
from worker.outcome import Outcome, Receipt
from worker.ports import Clock
from worker.protocol import Claim

LOOK_S = 0.02


class RemoteEngine:
    """Implements `worker.engine.base.Engine`.

    Attributes:
        base: what the far end's files are called, without their endings.
    """

    base: Path

    def __init__(self, *_: Any, clock: Clock, **__: Any) -> None:
        self._clock = clock

    async def submit(self, capability: LaunchCapability, claim: Claim) -> "RemoteWork":
        key = (claim.binding.run_id, claim.binding.attempt)
        capability.spend(*key)
        execution_id = f"remote/{key[0]}.{key[1]}"
        with _file(self.base, execution_id).open("x"):
            pass
        with self.base.with_suffix(".effects").open("a") as effects:
            effects.write(f"{key[1]}\n")
        return RemoteWork(self.base, execution_id, self._clock)

    def reattach(self, trace: Trace) -> "RemoteWork | None":
        return None if trace.execution_id is None else RemoteWork(self.base, trace.execution_id, self._clock)

    def prove(self, _: Trace) -> str:
        return "the far end was not asked"


class RemoteWork:
    """Implements `worker.engine.base.Work`."""

    def __init__(self, base: Path, execution_id: str, clock: Clock) -> None:
        self.receipt = Receipt(execution_id, clock.wall_ms())
        self._go, self._stop = base.with_suffix(".go"), _file(base, execution_id).with_suffix(".stop")
        self._clock = clock

    def stop(self) -> None:
        self._stop.touch()

    async def observe(self) -> Outcome:
        while not (self._go.exists() or self._stop.exists()):  # noqa: ASYNC110 -- what ends it is another process
            await asyncio.sleep(LOOK_S)
        stopped = self._stop.exists()
        return Outcome(
            succeeded=not stopped,
            reason="exit" if stopped else None,
            exit_code=-15 if stopped else 0,
            ended_ms=self._clock.wall_ms(),
        )


def _file(base: Path, execution_id: str) -> Path:
    return base.with_name(f"{base.name}.{execution_id.removeprefix('remote/').replace('.', '-')}.job")
