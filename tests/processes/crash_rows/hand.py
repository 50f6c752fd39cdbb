"""One worker under test, behind a door, with a schedule that only it serves."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.processes.cluster import HANG_S, wait_for
from tests.processes.crash_rows.door import Door
from tests.processes.crash_rows.nursery import start

if TYPE_CHECKING:
    from tests.processes.crash_rows.yard import Yard

WORKERS_TIMING = (
    "poll_wait_s = 1.0\npoll_pause_s = 0.05\nbackoff_first_s = 0.05\nbackoff_most_s = 0.3\ndenied_repeat_s = 0.3"
)


class Hand:
    """A worker of one row: its process, its door, its pool and its schedule, all of one name."""

    def __init__(self, yard: "Yard", number: int, name: str) -> None:
        self.name = name
        self.worker = f"worker{number}"
        self.door = Door(yard.admission_urls)
        self.process: BaseProcess | None = None
        self._yard = yard
        self.data = yard.cluster.dir / "data" / self.worker
        self._effects = yard.folder / f"{name}.effects"
        self.config = self._written(self.worker, self.data)

    def drops_grants_after(self, grant_expiry_s: float) -> None:
        """Let it take no grant that came later than this; before it starts."""
        self.config = self._written(self.worker, self.data, grant_expiry_s)

    def _written(self, file: str, data: Path, grant_expiry_s: float = HANG_S) -> Path:
        path = self._yard.cluster.dir / f"{file}.{self.name}.toml"
        path.write_text(
            f'name = "{self.worker}"\npools = ["{self.name}"]\nslots = 4\ndata_dir = "{data}"\n'
            f'admission_urls = ["http://127.0.0.1:{self.door.port}"]\ncredential = "credentials/{self.worker}.token"\n'
            f"[timing]\n{WORKERS_TIMING}\ngrant_expiry_s = {grant_expiry_s}\n"
        )
        return path

    def start(self, special: str | None = None) -> None:
        """Start its process, perhaps a special one."""
        self.process = self._started(self.config, special)

    def running(self, special: str | None = None) -> str:
        """Start it and a run, and wait until its acceptance is on record; returns the run's id."""
        self.start(special)
        run_id = self.trigger()
        self.until_attempt(run_id, "Accepted")
        self.launched()
        return run_id

    def start_twin(self) -> None:
        """Start a process with the same name and credential, and a ledger of its own."""
        self._started(self._written("twin", self.data.with_name(f"{self.worker}.twin")))

    def _started(self, config: Path, special: str | None = None) -> BaseProcess:
        process = start("worker", config, self.log, special, self.mark)
        self._yard.children.append(process)
        return process

    def lose_disk(self) -> None:
        """Remove its data folder."""
        shutil.rmtree(self.data)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kill it (SIGKILL), if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.join()

    def ended(self, within_s: float = HANG_S) -> int | None:
        """Wait until its process has ended; returns the exit code, or None if it has not in time."""
        assert self.process is not None
        self.process.join(within_s)
        return self.process.exitcode

    @property
    def log(self) -> Path:
        return self._yard.folder / f"{self.name}.log"

    @property
    def mark(self) -> Path:
        """What a process writes that has come to its place."""
        return self._yard.folder / f"{self.name}.mark"

    def halted(self) -> None:
        """Wait until the process stands at its place."""
        wait_for(f"{self.name} at its place", self.mark.exists)

    def trigger(self) -> str:
        """Start a run; returns its id."""
        return self._yard.trigger(self.name)

    def cancel(self, run_id: str) -> None:
        self._yard.post("/v1/cancel", {"run_id": run_id})

    def let_go(self) -> None:
        """Let the commands of this row end."""
        (self._yard.folder / f"{self.name}.go").touch()

    def ended_by_itself(self) -> bool:
        """Return whether a launched command has come to its end."""
        return (self._yard.folder / f"{self.name}.ended").exists()

    def ledger_states(self) -> list[str]:
        """Return the state of each row of its ledger, as it is on disk."""
        with closing(sqlite3.connect(f"file:{self.data / 'ledger.db'}?mode=ro", uri=True)) as db:
            return [state for (state,) in db.execute("SELECT state FROM attempt")]

    def effects(self) -> list[int]:
        """Return the attempt of each launch, as the launched commands wrote it."""
        return [int(line) for line in self._effects.read_text().split()] if self._effects.exists() else []

    def launched(self, count: int = 1) -> None:
        wait_for(f"launch {count} of {self.name}", lambda: len(self.effects()) >= count)

    def shown(self, run_id: str) -> dict[str, Any]:
        """Return the run as `show` tells of it."""
        return dict(wait_for("an answer", lambda: self._yard.get(f"/v1/runs/{run_id}")))

    def until(self, run_id: str, state: str, look: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
        """Wait until a run is in a state; returns it as `show` tells of it."""
        seen: dict[str, Any] = {}

        def found() -> dict[str, Any] | None:
            seen.update(self.shown(run_id))
            return seen if seen["state"] == state and look(seen) else None

        try:
            return dict(wait_for(f"{self.name} to be {state}", found))
        except AssertionError as fault:
            raise AssertionError(
                f"{fault}: it is {seen['state']}, {attempts(seen)}, {self.log.read_text()[-2000:]}"
            ) from None

    def until_attempt(self, run_id: str, state: str) -> None:
        """Wait until the first attempt of a run is in a state."""
        wait_for(f"{self.name}: {state}", lambda: [a["state"] for a in self.shown(run_id)["attempts"]][:1] == [state])


def attempts(shown: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return state and reason of each attempt."""
    return [(each["state"], each["reason"]) for each in shown["attempts"]]


def moves(shown: dict[str, Any], op: str) -> int:
    """Return how often an op moved an attempt of the run."""
    return sum(event["op"] == op and event["attempt"] is not None for event in shown["events"])
