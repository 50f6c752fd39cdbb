"""One life of a worker process: the real worker and ledger, an engine of its host, and the network to the owner."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import structlog

from tests.simulation.product.engine import SimulatedEngine
from tests.simulation.product.hosts import Fuse
from tests.simulation.product.loop import Life
from tests.simulation.product.network import Call, Lost, NoConnection
from worker.client import ReplyLost, Unreachable
from worker.fault import LedgerBroken
from worker.http_admission import HttpAdmission
from worker.ledger import Ledger
from worker.service import Worker

if TYPE_CHECKING:
    from tests.simulation.product.world import World

T = TypeVar("T")
_log = structlog.get_logger("simulation.worker")


class LedgerFile:
    """The ledger's connection with a place to die, or to fail, before and after every statement."""

    def __init__(self, db: sqlite3.Connection, fuse: Fuse) -> None:
        self._db, self._fuse = db, fuse

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        reads = sql.startswith("SELECT")
        if reads:
            self._fuse.point()
        else:
            self._fuse.at_disk(sqlite3.OperationalError("disk I/O error"))
        cursor = self._db.execute(sql, *args)
        if not reads:
            self._fuse.point()
        return cursor

    def executemany(self, sql: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        self._fuse.point()
        return self._db.executemany(sql, rows)

    def close(self) -> None:
        self._db.close()


class SimulatedHttp(HttpAdmission):
    """The real client up to the socket: which voter it asks, what it makes of the answers."""

    def __init__(self, process: "WorkerProcess", urls: Iterable[str], token: bytes) -> None:
        super().__init__(list(urls), token)
        self._process, self._bearer = process, f"Bearer {token.decode()}"

    async def _send_to(self, url: str, path: str, body: bytes, form: type[T], within_s: float) -> T:
        process = self._process
        headers = {"authorization": self._bearer}
        call = Call(process.host_name, "admission", "POST", path, headers, body)
        linear, asks = process.world.checker.linear, path in {"/v1/permits", "/v1/fences"}
        sent = linear.asked(path, msgspec.json.decode(body)["items"]) if asks else []
        timing = process.world.timing
        limit_s = min(within_s, timing.reply_s + (timing.worker.poll_wait_s if path == "/v1/poll" else 0.0))
        try:
            reply = await process.world.network.call(url.removeprefix("http://"), call, limit_s)
        except NoConnection as fault:
            for pending in sent:
                pending.nothing()
            self._route.failed(url)
            raise Unreachable(str(fault)) from None
        except Lost as fault:
            raise ReplyLost(str(fault)) from None
        if reply.status == 200 and asks:
            linear.answered(sent, msgspec.json.decode(reply.body)["items"])
        elif reply.status == 421 or b'"unknown"' not in reply.body:
            for pending in sent:
                pending.nothing()
        return self._understand(url, reply.status, reply.headers, reply.body, form)


class WorkerProcess:
    """A worker process from its start to its end.

    Attributes:
        name: the worker; two hosts may run one.
    """

    def __init__(self, world: "World", host_name: str, name: str, folder: Path) -> None:
        self.world, self.host_name, self.name, self.folder = world, host_name, name, folder
        self.life = Life(host_name)
        self.life.died = lambda: world.kill_worker(host_name, power=world.draws_power())
        self.fuse = Fuse(self.life.died, lambda: self.life.alive)
        self.random = Random(f"{world.plan.seed} {host_name} {world.count_life(host_name)}")
        clock = world.clocks[host_name]
        self.ledger = Ledger.open(folder, worker=name, clock=clock, randomness=self.random)
        self._db = self.ledger._db
        self.ledger._db = LedgerFile(self._db, self.fuse)
        self.machine = world.machines[host_name]
        self.worker = Worker(
            slots=world.plan.slots,
            ledger=self.ledger,
            engine=SimulatedEngine(world, self.machine, self.life),
            admission=SimulatedHttp(self, world.urls, world.tokens[name]),
            clock=clock,
            randomness=self.random,
            timing=world.timing.worker,
        )
        host = world.network.hosts[host_name]
        host.life, host.powered = self.life, True
        world.loop.spawn(self.life, self._run())

    async def _run(self) -> None:
        """Work; however it ends, the process ends with it."""
        why = "drained"
        try:
            await self.worker.run()
        except (LedgerBroken, BaseExceptionGroup, Exception) as fault:  # noqa: BLE001 - whatever it is, the process ends
            why = repr(fault)
            if self.life.alive and not (isinstance(fault, LedgerBroken) and self.fuse.flaw is not None):
                self.world.checker.report(f"{self.host_name} failed: {why}")
        if not self.life.alive:
            return
        self.world.note("worker ends", host=self.host_name, why=why)
        self.world.kill_worker(self.host_name, power=False)

    def left(self) -> dict[tuple[str, int], str]:
        """Return what the ledger holds open now that the process is gone; a transaction under way never was."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        rows = self._db.execute("SELECT run_id, attempt, state FROM attempt WHERE answered_ms IS NULL")
        return {(run_id, attempt): state for run_id, attempt, state in rows}

    def close(self) -> None:
        """Give up the ledger's file."""
        self.ledger._db = self._db
        self.ledger.close()
