"""The voters of a storm, each with a front for clients: `python -m tests.processes.storms.voter PLAN`.

The process that is started so only waits: each line on its standard input names a voter, which is forked then, so that
one that was killed is back within milliseconds. It says `NAME started PID` and, after its end, `NAME ended STATUS`.

A client writes one JSON list a line on the unix socket, `["call", key, call, within_s]` or `["status"]`, and reads
one: `["done", result]`, `["not_done", why]` or `["unknown"]`.
"""

import asyncio
import ctypes
import json
import os
import secrets
import signal
import sqlite3
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cluster import websocket
from cluster.bearer import Bearers, Principal
from cluster.listener import Listener, SocketRoute, bound
from cluster.node import Node
from cluster.outcome import NotApplied, OutcomeUnknown
from cluster.websocket import Peers
from fencepost.system import SystemClock, log_to_stderr
from tests.linearizability.cells import Cell, Read, from_words
from tests.processes.storms import plan as plans

CLONE_NEWNET = 0x40000000
CLUSTER = frozenset({"cluster"})
FAULTS = ("", "read without barrier", "acknowledge before commit", "deny what is unknown")
"""Ways in which a front can lie; a storm must find each of them."""


class Cells:
    """Cells by name, as replicated state; what the calls mean is the checker's own model."""

    version = 1

    def create(self, db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE cell (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")

    def apply(self, db: sqlite3.Connection, command: bytes) -> object:
        key, words = json.loads(command)
        value, result = Cell().step(value_of(db, key), from_words(words))
        db.execute("INSERT OR REPLACE INTO cell VALUES (?, ?)", (key, value))
        return [key, value, result]


def value_of(db: sqlite3.Connection, key: str) -> int:
    row = db.execute("SELECT value FROM cell WHERE key = ?", (key,)).fetchone()
    return row[0] if row else Cell.initial


class Front:
    """Answers clients."""

    def __init__(self, node: Node, fault: str, group: asyncio.TaskGroup) -> None:
        assert fault in FAULTS
        self._node, self._fault, self._group = node, fault, group

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(await self._answer(json.loads(line))).encode() + b"\n")
        writer.close()

    async def _answer(self, words: list[Any]) -> list[Any]:
        if words == ["status"]:
            return ["done", asdict(self._node.status())]
        _, key, call, within_s = words
        try:
            return ["done", await self._call(key, call, within_s)]
        except NotApplied as fault:
            return ["not_done", str(fault)]
        except OutcomeUnknown as fault:
            return ["not_done", str(fault)] if self._fault == "deny what is unknown" else ["unknown"]

    async def _call(self, key: str, words: list[Any], within_s: float) -> object:
        if isinstance(from_words(words), Read):
            if not (self._fault == "read without barrier" and self._leads()):
                await self._node.barrier()
            return await self._node.read(lambda db: value_of(db, key))
        command = json.dumps([key, words]).encode()
        if self._fault == "acknowledge before commit" and self._leads():
            value = await self._node.read(lambda db: value_of(db, key))
            self._group.create_task(_ignored(self._node.propose(command)))
            return Cell().step(value, from_words(words))[1]
        applied = await self._node.propose(command, within_s)
        assert isinstance(applied.result, list)
        return applied.result[2]

    def _leads(self) -> bool:
        return self._node.status().role == "leader"


async def _ignored(proposal: Awaitable[object]) -> None:
    try:
        await proposal
    except (NotApplied, OutcomeUnknown):
        return


async def serve(folder: Path, plan: plans.Plan, name: str) -> None:
    """Serve until killed, or until nobody holds the other end of standard input any more."""
    asyncio.get_running_loop().add_reader(0, os._exit, 0)
    async with AsyncExitStack() as stack:
        host, port = plan.listen[name]
        socket = stack.enter_context(bound("cluster", host, port))
        node = Node.open(
            folder / name,
            name=name,
            cluster_id=plan.cluster_id,
            members=plans.NAMES,
            machine=Cells(),
            clock=SystemClock(),
            randomness=secrets.SystemRandom(),
            timing=plans.TIMING,
            bounds=plans.BOUNDS,
        )
        token = plan.token.encode()
        peers = Peers(
            node=node, urls=plan.urls[name], token=token, randomness=secrets.SystemRandom(), timing=plans.LINKS
        )
        raft = SocketRoute(
            websocket.PATH,
            CLUSTER,
            peers.accept,
            max_message_bytes=websocket.MAX_MESSAGE_BYTES,
            heartbeat_s=plans.LINKS.heartbeat_s,
        )
        bearers = Bearers([(Principal(name="voter", role="cluster"), token)])
        listener = Listener(name="cluster", socket=socket, bearers=bearers, routes=[raft], max_body_bytes=1 << 16)
        await listener.start()
        async with asyncio.TaskGroup() as group:
            for part in (node.run(), peers.run(), listener.watch()):
                group.create_task(part)
            await asyncio.start_unix_server(Front(node, plan.fault, group).serve, plans.front(folder, name))


def in_a_fork(name: str, run: Callable[[], None]) -> None:
    """Run a function in a child, and tell of its start and end on standard output."""
    if (child := os.fork()) == 0:
        try:
            os.dup2(2, 1)
            run()
        except BaseException:  # noqa: BLE001 - whatever it was must not come back into the parent's code
            traceback.print_exc()
        os._exit(1)
    os.write(1, f"{name} started {child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(1, f"{name} ended {os.waitstatus_to_exitcode(status)}\n".encode())


def in_network(space: str) -> None:
    """Move this process into a network namespace, given as a file."""
    with Path(space).open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns: {space}")


def nurse(folder: Path, plan: plans.Plan, name: str) -> None:
    """Fork one voter again and again: at each byte on standard input, which comes once the one before has ended."""
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    if plan.spaces:
        in_network(plan.spaces[name])
    log_to_stderr(node=name)
    while os.read(0, 1):
        Path(plans.front(folder, name)).unlink(missing_ok=True)  # of an earlier life
        in_a_fork(name, lambda: asyncio.run(serve(folder, plan, name)))


def main(path: str) -> None:
    assert os.getpgrp() == os.getpid(), "it ends its process group, so it must have one of its own"
    plan, folder = plans.read(Path(path)), Path(path).parent
    nurseries: dict[str, int] = {}
    for name in plans.NAMES:
        reader, nurseries[name] = os.pipe()
        if os.fork() == 0:
            for writer in nurseries.values():
                os.close(writer)  # or nobody would see the end of standard input
            os.dup2(reader, 0)
            nurse(folder, plan, name)
            os._exit(0)
        os.close(reader)
    for line in sys.stdin:
        os.write(nurseries[line.strip()], b"\n")
    os.killpg(0, signal.SIGKILL)  # nobody asks any more; one that stands still would not notice


if __name__ == "__main__":
    main(*sys.argv[1:])
