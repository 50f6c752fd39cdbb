"""A cluster whose voters and workers can be killed, stopped and cut off one by one, and the hands that rows work with."""

import http.client
import json
import os
import signal
from collections.abc import Container, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.processes.cluster import HANG_S, Cluster, fresh_key, wait_for
from tests.processes.crash_rows.hand import Hand
from tests.processes.crash_rows.links import Links
from tests.processes.crash_rows.nursery import start

LONGEST_S = 1.5
VOTERS_TIMING = "claim_s = 6.0\ncontact_s = 6.0\nrepeat_s = 0.3\nstop_grace_s = 1.0\nstop_deadline_s = 2.0"


class Yard:
    """A cluster and the hands that its rows work with."""

    def __init__(self, folder: Path, names: list[str], voters: int) -> None:
        self.folder = folder
        self.cluster = Cluster(folder, voters=voters, workers=len(names))
        self.admission_urls = [f"http://127.0.0.1:{self.cluster.base + 100 + i}" for i in range(1, voters + 1)]
        self.children: list[BaseProcess] = []
        self.voters: dict[str, BaseProcess] = {}
        self._token = (self.cluster.dir / "credentials" / "operator.token").read_text().strip()
        for node in self.cluster.voters:
            path = self.cluster.dir / f"{node}.toml"
            text = path.read_text()
            for number, name in enumerate(names, 1):
                principal = f'file = "credentials/worker{number}.token"\npools = '
                text = text.replace(f'{principal}["default"]', f'{principal}["{name}"]')
            path.write_text(f"{text}\n[timing]\n{VOTERS_TIMING}\n")
        self.links = Links(self.cluster)
        self.hands = {name: Hand(self, number, name) for number, name in enumerate(names, 1)}

    def start(self, *names: str) -> None:
        """Start voters, and wait until each is ready."""
        before = {name: self._ready(name) for name in names}
        for name in names:
            config = self.cluster.dir / f"{name}.toml"
            self.voters[name] = start("runner", config, self.cluster.log(name))
            self.children.append(self.voters[name])
        for name in names:
            wait_for(f"{name} to be ready", lambda name=name: self._ready(name) > before[name])

    def _ready(self, name: str) -> int:
        log = self.cluster.log(name)
        return log.read_text().count('"event": "ready"') if log.exists() else 0

    def kill(self, *names: str) -> None:
        """Kill voters (SIGKILL)."""
        for name in names:
            self.voters[name].kill()
        for name in names:
            self.voters[name].join()

    def signal(self, number: signal.Signals, *names: str) -> None:
        for name in names:
            pid = self.voters[name].pid
            assert pid is not None
            os.kill(pid, number)

    def ended(self, name: str) -> int | None:
        """Wait until a voter has ended; returns its exit code."""
        self.voters[name].join(HANG_S)
        return self.voters[name].exitcode

    def others(self, name: str) -> list[str]:
        """Return all voters but one."""
        return [each for each in self.cluster.voters if each != name]

    def owner(self, *but: str) -> str:
        """Wait until a voter owns, and no longer one of those named; returns its name."""
        return str(wait_for("an owner", lambda: next(iter(self._owning(but)), None)))

    def _owning(self, but: Container[str]) -> list[str]:
        """Return the voters that say of themselves that they own."""
        asked = [name for name in self.cluster.voters if name not in but]
        told = [self._asked("GET", "/v1/status", None, only=name)[1] for name in asked]
        return [each["node"] for each in told if each and each["owner"] == each["node"]]

    def admission_url(self, voter: str) -> str:
        """Return where a voter's admission listener is."""
        return self.admission_urls[self.cluster.voters.index(voter)]

    def trigger(self, name: str) -> str:
        """Start a run of a hand's schedule; returns its id."""
        return str(self.post("/v1/trigger", {"namespace": "test", "name": name})["run_id"])

    def one_shot(self, hand: Hand, at_ms: int) -> None:
        """Let a hand's schedule fire at one instant."""
        at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
        self.cluster.apply(self.schedules(hand.name).replace('every = "1d"', f'at = "{at}"'))

    def schedules(self, *names: str) -> str:
        """Return one pool and one schedule for each hand; the command writes its attempt, and ends once let go."""
        text = ""
        for name in names or self.hands:
            effects, go = self.folder / f"{name}.effects", self.folder / f"{name}.go"
            script = f"echo $FENCEPOST_ATTEMPT >> {effects}; for i in $(seq 1000); do test -e {go} && break; sleep 0.05; done"
            script += f"; touch {self.folder / name}.ended"
            text += (
                f'[[pool]]\nname = "{name}"\nlimit = 4\n[[schedule]]\nnamespace = "test"\nname = "{name}"\nevery = "1d"\n'
                f"pool = \"{name}\"\nretry = {{ attempts = 3 }}\ncommand = {{ argv = [\"sh\", \"-c\", '''{script}'''] }}\n"
            )
        return text

    def get(self, path: str, only: str | None = None) -> Any:
        """Return what a voter answers as the owner or through it, or None while none can."""
        return self._asked("GET", path, None, only=only)[1]

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Change something, whoever owns meanwhile; returns the answer."""
        key = fresh_key()
        return wait_for(f"POST {path}", lambda: self._asked("POST", path, body, key)[1])

    def once(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Ask each voter in turn for a change until one answers anything but `not done`; returns status and body."""
        return self._asked("POST", path, body, fresh_key(), whole=True)

    def ask(self, method: str, path: str, body: dict[str, Any], key: str, *, only: str) -> tuple[int, Any]:
        """Ask one voter, once; returns status and body, 0 and None if there was no answer."""
        return self._asked(method, path, body, key, only=only, whole=True)

    def _asked(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        key: str = "",
        *,
        whole: bool = False,
        only: str | None = None,
    ) -> tuple[int, Any]:
        status, answer = 0, None
        for i, name in enumerate(self.cluster.voters, 1):
            if only not in {None, name}:
                continue
            connection = http.client.HTTPConnection(
                "127.0.0.1", self.cluster.base + 200 + i, timeout=HANG_S if whole else LONGEST_S
            )
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            try:
                connection.request(
                    method,
                    path,
                    json.dumps(body) if body else None,
                    headers | ({"Idempotency-Key": key} if key else {}),
                )
                reply = connection.getresponse()
                raw, status, stale = reply.read(), reply.status, reply.getheader("Fencepost-Stale")
            except OSError:
                continue
            finally:
                connection.close()
            answer = json.loads(raw)
            if whole and answer.get("certainty") != "not_done":
                return status, answer
            if status == 200 and stale is None:
                return status, answer
        return (status, answer) if whole else (status, None)

    def close(self) -> None:
        """Leave no process behind."""
        for hand in self.hands.values():
            hand.let_go()
        for child in self.children:
            child.kill()
            child.join()
        for hand in self.hands.values():
            hand.door.close()
        self.links.close()


@contextmanager
def yard_of(folder: Path, names: list[str], voters: int) -> Iterator[Yard]:
    """Start the voters and apply the schedules; leave nothing behind, whatever happens."""
    yard = Yard(folder, names, voters)
    try:
        yard.start(*yard.cluster.voters)
        yard.cluster.apply(yard.schedules())
        yield yard
    finally:
        yard.close()
