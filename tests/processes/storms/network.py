"""Three ways in which the voters of a storm reach each other, two of which can be cut, one way too."""

import asyncio
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import permutations
from typing import Protocol

from tests.processes.storms.plan import NAMES
from tests.processes.storms.proxy import Proxy

PORT = 7400
NOBODY = "02:00:00:00:00:ff"


class Unavailable(Exception):
    """This machine or this user cannot have such a network; the text says what is missing."""


class Network(Protocol):
    """What is between the voters.

    Attributes:
        can_part: whether anything can be cut.
        listen: where each voter listens.
        spaces: the network namespace of each voter as a file; empty for the test's own.
    """

    can_part: bool
    listen: dict[str, tuple[str, int]]
    spaces: dict[str, str]

    def urls(self, name: str) -> dict[str, str]:
        """Return where one voter finds the others."""
        ...

    def silence(self, one: str, other: str) -> None:
        """Let nothing from one voter through to another until mended; connections stay."""
        ...

    def sever(self, one: str, other: str) -> None:
        """Part two voters until mended; break their connections, where that is possible."""
        ...

    def mend(self) -> None:
        """Let everything through again. Idempotent."""
        ...


class Loopback:
    """Straight over loopback."""

    can_part = False

    def __init__(self) -> None:
        self.listen = {name: ("127.0.0.1", port) for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)}
        self.spaces: dict[str, str] = {}

    def urls(self, name: str) -> dict[str, str]:
        del name
        return {peer: f"http://{host}:{port}" for peer, (host, port) in self.listen.items()}

    def silence(self, one: str, other: str) -> None:
        raise AssertionError(f"{one} and {other} cannot be parted over loopback: ask can_part first")

    sever = silence

    def mend(self) -> None:
        """Do nothing: nothing is ever cut."""


class Proxied(Loopback):
    """Over loopback through one proxy for each voter and peer; who looks for a dead voter finds the proxy alive."""

    can_part = True

    def __init__(self) -> None:
        super().__init__()
        self.proxies = {
            (one, other): Proxy(one, other, self.listen[other], port)
            for (one, other), port in zip(permutations(NAMES, 2), free_ports(6), strict=True)
        }

    def urls(self, name: str) -> dict[str, str]:
        return {peer: f"http://127.0.0.1:{self.proxies[name, peer].port}" for peer in NAMES if peer != name}

    def silence(self, one: str, other: str) -> None:
        for proxy in self._between(one, other):
            proxy.hold(one)

    def sever(self, one: str, other: str) -> None:
        for proxy in self._between(one, other):
            proxy.cut()

    def mend(self) -> None:
        for proxy in self.proxies.values():
            proxy.mend()

    def _between(self, one: str, other: str) -> tuple[Proxy, Proxy]:
        return self.proxies[one, other], self.proxies[other, one]


class Namespaces:
    """A network namespace for each voter, on one bridge in a namespace of its own; needs root and iproute2."""

    can_part = True

    def __init__(self) -> None:
        tag = secrets.token_hex(4)
        self._hub = f"storm-{tag}-hub"
        self._spaces = {name: f"storm-{tag}-{name}" for name in NAMES}
        self.spaces = {name: f"/run/netns/{space}" for name, space in self._spaces.items()}
        self._silenced: set[tuple[str, str]] = set()
        self.listen = {name: (f"10.0.0.{number}", PORT) for number, name in enumerate(NAMES, start=1)}

    def create(self) -> None:
        """Make the namespaces.

        Raises:
            Unavailable: they cannot be made.
        """
        ip("netns", "add", self._hub)
        ip("-n", self._hub, "link", "add", "bridge0", "type", "bridge")
        ip("-n", self._hub, "link", "set", "bridge0", "up")
        for name, space in self._spaces.items():
            ip("netns", "add", space)
            ip("-n", self._hub, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("-n", self._hub, "link", "set", name, "master", "bridge0", "up")
            ip("-n", space, "address", "add", f"{self.listen[name][0]}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")

    def destroy(self) -> None:
        """Take them away again, as far as they were made."""
        for space in (self._hub, *self._spaces.values()):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

    def urls(self, name: str) -> dict[str, str]:
        del name
        return {peer: f"http://{host}:{port}" for peer, (host, port) in self.listen.items()}

    def silence(self, one: str, other: str) -> None:
        where = (self.listen[other][0], "lladdr", NOBODY, "nud", "permanent", "dev", "eth0")
        ip("-n", self._spaces[one], "neighbour", "replace", *where)
        self._silenced.add((one, other))

    def sever(self, one: str, other: str) -> None:
        self.silence(one, other)
        self.silence(other, one)

    def mend(self) -> None:
        for one, other in self._silenced:
            ip("-n", self._spaces[one], "neighbour", "delete", self.listen[other][0], "dev", "eth0")
        self._silenced.clear()


def ip(*words: str) -> None:
    """Run iproute2.

    Raises:
        Unavailable: it cannot; the text is its own.
    """
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")


def free_ports(count: int) -> list[int]:
    """Return ports that can be bound now, below those that a kernel gives to clients: a killed voter's stays free."""
    while True:
        ports = [10_000 + secrets.randbelow(20_000) for _ in range(count)]
        try:
            for port in {*ports}:
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if len({*ports}) == count:
            return ports


@asynccontextmanager
async def loopback() -> AsyncIterator[Network]:
    yield Loopback()


@asynccontextmanager
async def proxied() -> AsyncIterator[Network]:
    network = Proxied()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(proxy.run()) for proxy in network.proxies.values()]
        try:
            yield network
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def namespaces() -> AsyncIterator[Network]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise Unavailable("network namespaces need root and the program `ip` (iproute2)")
    network = Namespaces()
    try:
        network.create()
        yield network
    finally:
        network.destroy()


def open_network(kind: str) -> AbstractAsyncContextManager[Network]:
    """Return a network of a kind: `loopback`, `proxy` or `namespaces`.

    Raises:
        Unavailable: when entered, if this machine cannot have it.
    """
    return {"loopback": loopback, "proxy": proxied, "namespaces": namespaces}[kind]()
