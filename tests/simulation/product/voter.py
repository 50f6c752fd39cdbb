"""One life of a runner process: voter, runner, admission and management, as `fencepost/runner_process.py` wires them."""

import dataclasses
import sqlite3
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from cluster.bearer import Bearers, Principal
from cluster.identity import FolderLock, read_identity
from cluster.listener import Reply, Request, forbidden
from cluster.log_mirror import Entry
from cluster.node import Node
from cluster.outcome import FailStop, NotApplied, OutcomeUnknown
from cluster.problem import CONTENT_TYPE, Problem, unauthorized
from cluster.relay import RelayRequest, ReplyLost, Unreachable
from cluster.replica import Replica
from cluster.room import RESERVE_BYTES
from cluster.route_table import RouteTable
from runner.admission.routes import admission_routes
from runner.admission.service import Admission
from runner.checkpoint.machine import Checkpoint
from runner.checkpoint.ops import Op
from runner.management.replies import decided, not_applied, uncertain
from runner.management.routes import management_routes, relay_handler
from runner.management.service import Management
from runner.service import Runner
from tests.simulation.product.hosts import Fuse, HostExecutor, Killed
from tests.simulation.product.loop import Life
from tests.simulation.product.network import Call, Lost, NoConnection

if TYPE_CHECKING:
    from tests.simulation.product.world import World

IO_ERROR = "disk I/O error"
RELAY_S = 3.0
_op_decoder = msgspec.msgpack.Decoder(Op)


class Voter:
    """A runner process from its start to its end."""

    def __init__(self, world: "World", name: str) -> None:
        """Make it; nothing happens before `start`."""
        self.name, self.world = name, world
        self.life = Life(name)
        self.life.died = lambda: world.kill_voter(name, power=world.draws_power())
        self.fuse = Fuse(self.life.died, lambda: self.life.alive)
        self.random = Random(f"{world.plan.seed} {name} {world.count_life(name)}")
        self.log = self.checkpoint = None
        self.host = world.network.hosts[name]
        self.clock = world.clocks[name]

    def start(self) -> None:
        """Open the folder and run; raises Killed or FailStop where the seed or the disk ends it at once."""
        world, name = self.world, self.name
        self.host.life, self.host.powered, self.host.serve = self.life, True, self.serve
        self.node = self._open()
        self.host.node = self.node
        self.runner = Runner(
            node=self.node, clock=self.clock, name=name, voters=len(world.voters), timing=world.timing.owner
        )
        self._wire()
        for part in (self.node.run(), self.runner.run()):
            world.loop.spawn(self.life, self._part(part))

    def _open(self) -> Node:
        world, disk = self.world, self.world.disks[self.name]
        identity = read_identity(disk.folder)
        self.host.disk_id = identity.disk_id
        self.starting = True
        log, checkpoint = disk.open(identity, Checkpoint(identity.cluster_id), self._at_disk, self._has_space)
        self.log, self.checkpoint = log, checkpoint
        apply = checkpoint.apply

        def observed(entry: Entry) -> object:
            world.coverage.on = entry.index > world.checker.newest
            try:
                result = apply(entry)
            finally:
                world.coverage.on = False
            world.checker.applied(self, entry, result)
            return result

        checkpoint.apply = observed
        executor = HostExecutor(world.loop, self.life, lambda: 0.05 * self.random.random())
        replica = Replica(
            identity,
            log,
            checkpoint,
            clock=self.clock,
            randomness=self.random,
            timing=world.timing.raft,
            executor=executor,
            bounds=world.bounds,
            free_bytes=lambda: world.free[self.name],
        )
        self.starting = False
        return Node(replica, FolderLock(-1), world.timing.raft.tick_s, executor, self.clock)

    def _at_disk(self) -> None:
        self.fuse.at_disk(sqlite3.OperationalError(IO_ERROR))

    def _has_space(self) -> bool:
        return self.starting or self.world.free[self.name] >= RESERVE_BYTES

    def _wire(self) -> None:
        world = self.world
        management = Management(
            name=self.name,
            node=self.node,
            owner=self.runner,
            relay=self,
            clock=self.clock,
            randomness=self.random,
            timing={**dataclasses.asdict(world.timing.raft), **dataclasses.asdict(world.timing.owner)},
        )
        admission = Admission(
            runner=self.runner, node=self.node, clock=self.clock, urls=world.urls, timing=world.timing.owner
        )
        self.bearers = Bearers(world.credentials)
        self._relayed = relay_handler(management, self.bearers)
        routes = {"admission": admission_routes(admission), "management": management_routes(management)}
        self._tables = {
            listener: RouteTable((each.method, each.path, each) for each in own) for listener, own in routes.items()
        }

    async def _part(self, part: object) -> None:
        """Run a part of the process; however it ends, the process ends with it."""
        why = "ended by itself"
        try:
            await part
        except (FailStop, BaseExceptionGroup, Exception) as fault:  # noqa: BLE001 - whatever it is, the process ends
            why = f"{type(fault).__name__}: {_leaf(fault)}"
        self.world.voter_ended(self, why)

    # ---- listeners

    async def serve(self, call: Call) -> Reply:
        """Answer as the listeners do: bearer, path, role, handler; what a handler meets becomes a problem."""
        try:
            if call.listener == "relay":
                return await self._relayed(_relay_request(call))
            return await self._serve(call)
        except Problem as problem:
            if problem.certainty == "unknown":
                self.world.checker.crashes.uncertain()
            if problem.title == "Incarnation Refused":
                self.world.checker.crashes.refused_incarnation()
            return Reply(problem.status, problem.body(), CONTENT_TYPE, problem.headers)
        except FailStop as fault:
            self.world.voter_ended(self, f"FailStop in a handler: {fault}")
            raise Killed from None
        except Exception as fault:  # noqa: BLE001 - the one middleware
            self.world.checker.report(f"a handler of {self.name} failed on {call.path}: {fault!r}")
            return Reply(500, b"{}", CONTENT_TYPE)

    async def _submit(self, call: Call) -> Reply:
        """Take an op that no path of the management listener brings, as an adapter of this process would."""
        try:
            return decided(await self.runner.submit(_op_decoder.decode(call.body)))
        except NotApplied as fault:
            raise not_applied(fault) from None
        except OutcomeUnknown:
            raise uncertain("Leadership ended") from None

    async def _serve(self, call: Call) -> Reply:
        if call.listener == "op":
            return await self._submit(call)
        principal = self.bearers.judge([call.headers["authorization"].encode()])
        if principal is None:
            raise unauthorized()
        route, params = self._tables[call.listener].find(call.method, call.path.partition("?")[0])
        if principal.role not in route.roles:
            raise forbidden(principal.role, route.roles)
        reply = await route.handler(
            Request(
                method=call.method,
                path=call.path.partition("?")[0],
                params=params,
                query=dict(parse_qsl(call.path.partition("?")[2])),
                headers=call.headers,
                body=call.body,
                content_type="application/json",
                principal=principal,
                target=call.path,
            )
        )
        if call.listener == "admission":
            self.world.checker.admission_answered(self, principal, call, reply)
        return reply

    async def relay(self, voter: str, request: RelayRequest, /) -> Reply:
        """Hand a caller's request to another voter, as `cluster.relay.RelayClient` does."""
        headers = {"authorization": request.caller.decode()}
        if request.idempotency_key is not None:
            headers["idempotency-key"] = request.idempotency_key
        call = Call(self.name, "relay", request.method, request.path, headers, request.body)
        try:
            return await self.world.network.call(voter, call, RELAY_S)
        except NoConnection as fault:
            raise Unreachable(str(fault)) from None
        except Lost as fault:
            raise ReplyLost(str(fault)) from None

    def stop(self) -> None:
        """Stop in order, as at SIGTERM."""
        others = [each for each in self.world.live.values() if each is not self]
        healthy = 2 * len(others) > len(self.world.voters)
        self.world.checker.crashes.stopping(self, healthy=healthy)
        self.world.loop.spawn(self.life, self._stand_down(healthy=healthy))

    async def _stand_down(self, *, healthy: bool) -> None:
        await self.runner.stand_down("stopping")
        self.world.note("stopped in order", host=self.name)
        self.world.checker.crashes.stopped(healthy=healthy)
        self.world.kill_voter(self.name, power=False)


def _relay_request(call: Call) -> RelayRequest:
    return RelayRequest(
        method=call.method,
        path=call.path,
        caller=call.headers["authorization"].encode(),
        body=call.body,
        idempotency_key=call.headers.get("idempotency-key"),
    )


def _leaf(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


OPERATORS = (Principal("operator", "operator"), Principal("recovery", "recovery"))
