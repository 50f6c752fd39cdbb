"""`fencepost runner`: one voter, its runner and its three listeners, wired and run until asked to stop."""

import asyncio
import dataclasses
import resource
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Protocol

import structlog

from cluster.bearer import Bearers, Principal, load_token
from cluster.crowd import DEFAULT_LIMITS, Limits
from cluster.listener import Listener, Route, SocketRoute, bound
from cluster.node import Node
from cluster.outcome import FailStop
from cluster.ports import Clock, Status
from cluster.relay import RelayClient
from cluster.routes import cluster_routes
from cluster.websocket import Peers
from fencepost.config import NodeConfig
from fencepost.ending import endless, on_signal, or_end_now, report
from fencepost.standard_streams import Ends, standard_streams
from fencepost.stdin_console import StdinConsole
from fencepost.system import SystemClock, log_to_stderr
from runner.admission.routes import MAX_ADMISSION_BODY_BYTES, admission_routes
from runner.admission.service import Admission
from runner.checkpoint.machine import TABLES, Checkpoint
from runner.management.console import Console
from runner.management.routes import management_routes, relay_handler
from runner.management.service import Management
from runner.management.words import FIRST_ELECTION
from runner.service import Runner

MAX_MANAGEMENT_BODY_BYTES: Final = 1 << 20
SPARE_DESCRIPTORS: Final = 64  # for the stores, the links, and what is relayed
RELAYED: Final = Limits(requests_of_one=DEFAULT_LIMITS.requests)  # all voters have one credential
READY_LOOK_S: Final = 0.02
LEADERLESS_S: Final = 5.0
SWITCH_S: Final = 0.0005
"""How long a busy loop may keep a thread from going on: at Python's own 5 ms a slow disk's flush would often wait longer
for the interpreter than for the disk."""

_log = structlog.get_logger("fencepost.runner")


def run(config: NodeConfig) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    Raises:
        Unfit: a data folder or an address cannot be used; nothing on disk was changed.
    """
    log_to_stderr(node=config.name)
    sys.setswitchinterval(SWITCH_S)
    ends = standard_streams()
    try:
        asyncio.run(_serve(config, ends))
    except BaseExceptionGroup as faults:
        report(faults)
        return 1
    return 0


async def _serve(config: NodeConfig, ends: Ends | None) -> None:
    """Bind first, open the folder second: an address in use leaves the folder as it was."""
    async with AsyncExitStack() as stack:
        sockets = {name: _bound(stack, name, config) for name in ("cluster", "admission", "management")}
        clock, randomness = SystemClock(), secrets.SystemRandom()
        node = Node.open(
            config.data_dir,
            name=config.name,
            cluster_id=config.cluster_id,
            members=config.voters.keys(),
            machine=Checkpoint(config.cluster_id),
            clock=clock,
            randomness=randomness,
            timing=config.raft,
        )
        stack.push_async_callback(node.close)
        relay = RelayClient(urls=config.voters, token=config.cluster_token)
        stack.push_async_callback(relay.close)
        runner = Runner(node=node, clock=clock, name=config.name, voters=len(config.voters), timing=config.timing)
        management = Management(
            name=config.name,
            node=node,
            owner=runner,
            relay=relay,
            clock=clock,
            randomness=randomness,
            timing={**dataclasses.asdict(config.raft), **dataclasses.asdict(config.timing)},
        )
        peers = Peers(node=node, urls=config.voters, token=config.cluster_token, randomness=randomness)
        admission = Admission(runner=runner, node=node, clock=clock, urls=config.admission_urls, timing=config.timing)
        listeners = _listeners(config, sockets, node, peers, management, admission)
        console = None if ends is None else _console(config, management, ends)
        await _run(config, node, peers, runner, listeners, console)


def _console(config: NodeConfig, management: Management, ends: Ends) -> StdinConsole:
    console = Console(
        management=management,
        bearers=Bearers(config.principals),
        read_credential=lambda path: load_token(Path(path)),
    )
    return StdinConsole(console, ends)


def _bound(stack: AsyncExitStack, name: str, config: NodeConfig) -> socket.socket:
    address = getattr(config.listen, name)
    return stack.enter_context(bound(name, address.host, address.port))


def _listeners(
    config: NodeConfig,
    sockets: Mapping[str, socket.socket],
    node: Node,
    peers: Peers,
    management: Management,
    admission: Admission,
) -> list[Listener]:
    callers = Bearers(config.principals)
    voters = Bearers([(Principal(name="cluster", role="cluster"), config.cluster_token)])
    relayed = relay_handler(management, callers)
    connections = max((_descriptors() - SPARE_DESCRIPTORS) // 3, 16)
    served: dict[str, tuple[Bearers, list[Route | SocketRoute], int]] = {
        "cluster": (
            voters,
            cluster_routes(node=node, peers=peers, table_names=TABLES, relay=relayed),
            MAX_MANAGEMENT_BODY_BYTES,
        ),
        "admission": (callers, [*admission_routes(admission)], MAX_ADMISSION_BODY_BYTES),
        "management": (callers, [*management_routes(management)], MAX_MANAGEMENT_BODY_BYTES),
    }
    return [
        Listener(
            name=name,
            socket=sockets[name],
            bearers=bearers,
            routes=routes,
            max_body_bytes=most,
            limits=RELAYED if name == "cluster" else Limits(connections=connections),
        )
        for name, (bearers, routes, most) in served.items()
    ]


def _descriptors() -> int:
    """Return how many descriptors this process may open, after asking for as many as a listener can use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * DEFAULT_LIMITS.connections + SPARE_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
    return granted


async def _run(
    config: NodeConfig,
    node: Node,
    peers: Peers,
    runner: Runner,
    listeners: Sequence[Listener],
    console: StdinConsole | None,
) -> None:
    """Run every part until a signal; a part that ends before that ends the process, all but the console."""
    stopping = asyncio.Event()
    on_signal(stopping.set)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for each in listeners:
            await each.start()
            stack.push_async_callback(each.close)
        parts = [
            group.create_task(or_end_now(endless(name, part), FailStop))
            for name, part in (("the voter", node.run()), ("its links", peers.run()), ("the runner", runner.run()))
        ]
        parts += [group.create_task(or_end_now(endless("a listener", each.watch()), FailStop)) for each in listeners]
        if console is not None:
            parts.append(group.create_task(or_end_now(console.run(), FailStop)))
        _log.info("listening", **_addresses(config))
        await until_leader(node, SystemClock(), stopping)
        if not stopping.is_set():
            _log.info("ready", **_addresses(config))
        await stopping.wait()
        _log.info("stopping")
        if console is not None:
            console.hold()
        await runner.stand_down("this voter is stopping")
        for part in parts:
            part.cancel()
    _log.info("stopped")


def _addresses(config: NodeConfig) -> dict[str, str]:
    return {name: str(getattr(config.listen, name)) for name in ("cluster", "admission", "management")}


class Voter(Protocol):
    """What says whether a leader is seen."""

    def status(self) -> Status:
        """Return the voter's own view."""
        ...


async def until_leader(voter: Voter, clock: Clock, stopping: asyncio.Event) -> None:
    """Return once a leader is seen, or a signal came; says once whom it lacks if that takes long."""
    began_s, is_said = clock.mono_s(), False
    while (status := voter.status()).leader is None and not stopping.is_set():
        if not is_said and clock.mono_s() - began_s >= LEADERLESS_S:
            is_said = True
            others = [each for each in status.voters if each.name != status.name]
            _log.warning(
                "no leader seen",
                for_s=LEADERLESS_S,
                hint=FIRST_ELECTION,
                connected=[each.name for each in others if each.connected],
                not_connected=[each.name for each in others if not each.connected],
            )
        await asyncio.sleep(READY_LOOK_S)
