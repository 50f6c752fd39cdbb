"""A voter's surroundings in memory: a checkpoint made of rows, a loop that answers by script, a relay of one hop."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import msgspec

from cluster.bearer import Bearers, Principal
from cluster.listener import Reply, Request
from cluster.outcome import Applied
from cluster.ports import Leadership, PeerClock, PeerStatus, Status
from cluster.problem import Problem
from cluster.relay import RelayRequest
from cluster.route_table import RouteTable
from runner.checkpoint.ops import Cron, Every, Op, Retry, ScheduleSpec
from runner.checkpoint.results import OpResult
from runner.checkpoint.schema import STATEMENTS
from runner.contacts import WorkerContact
from runner.management.routes import management_routes, relay_handler
from runner.management.service import Management
from worker.protocol import CommandTarget

T = TypeVar("T")
NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
KEY = "019b76da-a800-7000-8000-000000000001"  # minted at NOW_MS
CLUSTER = "0198c0de-0000-7000-8000-000000000000"
OPERATOR = Principal("olga", "operator")
TENANT = Principal("tina", "operator", namespaces=frozenset({"demo"}))
RECOVERY = Principal("rita", "recovery")
TOKENS = {
    OPERATOR: b"operator-token-0001",
    TENANT: b"tenant-token-000002",
    RECOVERY: b"recovery-token-0003",
    Principal("wanda", "worker"): b"worker-token-000004",
}
BEARERS = Bearers(TOKENS.items())


class FakeClock:
    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def mono_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return self.now_ms


class FakeNode:
    """A voter whose checkpoint is what a test wrote into it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.leader: str | None = "node1"
        self.trouble: str | None = None
        self.barrier_raises: BaseException | None = None
        self.barrier_hangs = False
        self.barriers = 0
        self.replaced: list[tuple[str, str]] = []
        self.replace_answers: int | BaseException = 17
        self.linked_disk = "e" * 32  # of node2
        self.db = sqlite3.connect(":memory:")
        for statement in STATEMENTS:
            self.db.execute(statement)
        put(
            self.db,
            "head",
            id=1,
            cluster_id=CLUSTER,
            generation=1,
            epoch=3,
            owner="node1",
            revision=17,
            now_ms=NOW_MS,
            token_counter=5,
            frozen=0,
        )
        put(self.db, "pools", name="default", capacity=64, revision=1)

    async def propose(self, command: bytes, within_s: float, version: int) -> Applied:  # noqa: ARG002 - named as the port names them
        raise AssertionError("management proposes nothing by itself")

    async def barrier(self) -> int:
        self.barriers += 1
        if self.barrier_hangs:
            await asyncio.Event().wait()
        if self.barrier_raises is not None:
            raise self.barrier_raises
        return 40

    async def replace(self, name: str, disk_id: str, within_s: float) -> int:
        assert within_s < 10
        self.replaced.append((name, disk_id))
        if isinstance(self.replace_answers, BaseException):
            raise self.replace_answers
        return self.replace_answers

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        return query(self.db)

    async def leadership(self) -> AsyncIterator[Leadership]:
        yield Leadership(4, "leader")

    def status(self) -> Status:
        role = "leader" if self.leader == self.name else "follower"
        disk = self.linked_disk
        voters = (
            PeerStatus("node1", True, 40, "d" * 32, "voter"),
            PeerStatus("node2", disk != "", 38, disk, "not_accepted" if disk else ""),
        )
        return Status(self.name, role, 4, self.leader, 41, 40, 42, "d1", voters, self.trouble)

    def clocks(self) -> tuple[PeerClock, ...]:
        return ()

    def resign(self, why: str) -> None:
        raise AssertionError(f"management resigned: {why}")

    async def transfer(self, within_s: float) -> str | None:
        raise AssertionError(f"management hands over within {within_s} s")


@dataclass
class FakeOwner:
    """The loop: answers each op as told, and remembers it."""

    name: str
    owned_by: str | None
    answer: OpResult | BaseException = field(default_factory=lambda: OpResult("done"))
    ops: list[Op] = field(default_factory=list)
    epoch: int | None = 3
    clock: str = "ok"

    @property
    def drives(self) -> bool:
        return self.owned_by == self.name

    def owner(self) -> str | None:
        return self.owned_by

    async def submit(self, op: Op) -> OpResult:
        self.ops.append(op)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def workers(self) -> list[WorkerContact]:
        return [WorkerContact("w1", "a4", 1.23456)]

    def clock_state(self) -> str:
        return self.clock


class FakeRelay:
    """One hop to another voter of the same test; `fails` stands in for the network."""

    def __init__(self) -> None:
        self.voters: dict[str, Voter] = {}
        self.fails: BaseException | None = None
        self.loses: BaseException | None = None
        self.sent: list[RelayRequest] = []

    async def relay(self, voter: str, request: RelayRequest) -> Reply:
        self.sent.append(request)
        if self.fails is not None:
            raise self.fails
        try:
            reply = await relay_handler(self.voters[voter].management, BEARERS)(request)
        except Problem as problem:
            reply = Reply(problem.status, problem.body(), "application/problem+json", problem.headers)
        if self.loses is not None:
            raise self.loses
        return reply


class Voter:
    """One voter's management with everything around it."""

    def __init__(self, owner: FakeOwner, relay: FakeRelay) -> None:
        name = owner.name
        self.node, self.owner, self.relay = FakeNode(name), owner, relay
        self.clock = FakeClock()
        self.management = Management(
            name=name,
            node=self.node,
            owner=self.owner,
            relay=relay,
            clock=self.clock,
            randomness=Random(7),
            timing={"raft_min_s": 0.3},
        )
        self.table = RouteTable((route.method, route.path, route) for route in management_routes(self.management))
        relay.voters[name] = self

    @property
    def db(self) -> sqlite3.Connection:
        return self.node.db

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        principal: Principal = OPERATOR,
        key: str | None = KEY,
        raw: bytes | None = None,
        **query: str,
    ) -> Reply:
        """Ask as the listener would: find the route, then call it; a Problem becomes its reply."""
        route, params = self.table.find(method, path)
        assert principal.role in route.roles
        headers = {"authorization": f"Bearer {TOKENS[principal].decode()}"}
        if key is not None:
            headers["idempotency-key"] = key
        raw = (b"" if body is None else msgspec.json.encode(body)) if raw is None else raw
        request = Request(method, path, params, query, headers, raw, "application/json", principal)
        try:
            return await route.handler(request)
        except Problem as problem:
            return Reply(problem.status, problem.body(), "application/problem+json", problem.headers)


def cluster(owner: str | None = "node1", first: FakeOwner | None = None) -> tuple[Voter, Voter]:
    """Return two voters that agree on who owns; `first` is the loop of node1, if not the plain one."""
    relay = FakeRelay()
    return Voter(first or FakeOwner("node1", owner), relay), Voter(FakeOwner("node2", owner), relay)


def decoded(reply: Reply) -> Any:
    return msgspec.json.decode(reply.body)


def put(db: sqlite3.Connection, table: str, **columns: object) -> None:
    names = ", ".join(columns)
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", tuple(columns.values()))


def spec(
    namespace: str = "demo", name: str = "tick", trigger: Cron | Every | None = None, **changed: object
) -> ScheduleSpec:
    plain = ScheduleSpec(
        namespace=namespace,
        name=name,
        schedule_id=schedule_id(namespace, name),
        trigger=trigger or Every(60),
        timezone="UTC",
        overlap="skip",
        pool="default",
        on_unknown="hold",
        retry=Retry(),
        target=CommandTarget(argv=("echo", "s3cret"), env={"TOKEN": "s3cret"}),
    )
    return msgspec.structs.replace(plain, **changed)


def schedule_id(namespace: str, name: str) -> str:
    return f"id-of-{namespace}-{name}"


def put_schedule(db: sqlite3.Connection, row: ScheduleSpec, *, enabled: bool = True, slot: str | None = None) -> None:
    put(
        db,
        "schedules",
        schedule_id=row.schedule_id,
        namespace=row.namespace,
        name=row.name,
        spec=msgspec.json.encode(row),
        digest="d",
        enabled=enabled,
        definition_revision=2,
        watermark_ms=NOW_MS,
        anchor_ms=NOW_MS - 60_000,
        slot_run_id=slot,
        revision=9,
    )


def put_run(
    db: sqlite3.Connection,
    run_id: str,
    row: ScheduleSpec,
    at_ms: int,
    state: str = "Succeeded",
    *,
    manual: bool = False,
) -> None:
    put(
        db,
        "runs",
        run_id=run_id,
        schedule_id=row.schedule_id,
        namespace=row.namespace,
        schedule=row.name,
        schedule_revision=2,
        scheduled_for_ms=None if manual else at_ms,
        trigger_id=KEY if manual else None,
        triggered_ms=at_ms if manual else None,
        occurrence="o" + run_id,
        state=state,
        reason=None,
        pool=row.pool,
        digest="d",
        attempts_allowed=1,
        backoff_ms=1_000,
        factor_milli=2_000,
        max_backoff_ms=300_000,
        on_unknown="hold",
        not_before_ms=at_ms,
        closes_ms=at_ms + 3_600_000,
        reopened_after=0,
        cancelled=0,
        closed=0,
        beside=0,
        apart=0,
        created_ms=at_ms,
        ended_ms=None,
        revision=10,
    )


def put_attempt(db: sqlite3.Connection, run_id: str, n: int, state: str, **changed: object) -> None:
    columns: dict[str, object] = {
        "run_id": run_id,
        "n": n,
        "state": state,
        "reason": None,
        "unresolved": 0,
        "superseded": 0,
        "won": 0,
        "worker": "w1",
        "incarnation": "a4",
        "ledger": "l1",
        "owner": "node1",
        "epoch": 3,
        "generation": 1,
        "authority": "default",
        "digest": "d",
        "reservation": "x1",
        "token": 1 << 40 | 7,
        "fenced": 0,
        "execution_id": None,
        "exit_code": None,
        "claimed_ms": NOW_MS + 5,
        "admitted_ms": NOW_MS + 10,
        "started_ms": None,
        "ended_ms": None,
        "cancelling_ms": None,
        "tail": "",
        "evidence": "",
        "revision": 12,
    }
    put(db, "attempts", **(columns | changed))


def put_event(db: sqlite3.Connection, revision: int, run_id: str | None, op: str) -> None:
    put(
        db,
        "events",
        revision=revision,
        ordinal=0,
        at_ms=NOW_MS + revision,
        actor="node1",
        run_id=run_id,
        attempt=None,
        op=op,
        from_state=None,
        to_state="Pending",
        why=None,
    )
