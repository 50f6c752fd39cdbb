"""Seeded links: delay, silence, cuts that lose a suffix, and frames of old connections that come back."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol


class Host(Protocol):
    """What the network needs of a process."""

    disk_id: str

    def connected(self, link: "End") -> None: ...
    def received(self, link: "End", frame: bytes) -> None: ...
    def disconnected(self, link: "End") -> None: ...


class End:
    """One end of one connection."""

    def __init__(self, network: "Network", owner: str, peer: str, session: str, disk_id: str) -> None:
        self._network, self.owner, self._peer, self._session = network, owner, peer, session
        self._disk_id = disk_id
        self.closed = ""  # why the owner ended it
        self.other: End
        self.on_way: deque[tuple[float, bytes]] = deque()  # towards `other`
        self.silent = False  # accepted, never delivered: half open
        self.point: Callable[[], None] = lambda: None

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def disk_id(self) -> str:
        return self._disk_id

    @property
    def session(self) -> str:
        return self._session

    def send(self, frame: bytes) -> None:
        self.point()
        self._network.send(self, frame)
        self.point()

    def close(self, why: str) -> None:
        self.closed = why
        self._network.farewells[self.owner, self._peer] = why
        self._network.disconnect(self.owner, self._peer)


class Network:
    """All connections between the processes that are alive."""

    def __init__(self, random: Random, hosts: dict[str, Host]) -> None:
        self._random, self._hosts = random, hosts
        self._up: dict[frozenset[str], tuple[End, End]] = {}
        self._old_frames: deque[tuple[str, str, End, bytes]] = deque(maxlen=200)
        self._sessions = 0
        self.now_s = 0.0
        self.slow: dict[tuple[str, str], float] = {}
        self.replays = False
        self.farewells: dict[tuple[str, str], str] = {}  # why who closed its link to whom, last

    def connect(self, one: str, two: str, points: dict[str, Callable[[], None]]) -> None:
        key = frozenset((one, two))
        if key in self._up or one not in self._hosts or two not in self._hosts:
            return
        self._sessions += 1
        session, disks = f"s{self._sessions}", [self._hosts[name].disk_id for name in (one, two)]
        ends = End(self, one, two, session, disks[1]), End(self, two, one, session, disks[0])
        for end, other in (ends, ends[::-1]):
            end.other, end.point = other, points[end.owner]
        self._up[key] = ends
        for end in ends:
            self._hosts[end.owner].connected(end)

    def disconnect(self, one: str, two: str) -> None:
        """Cut a connection: each side may still read a prefix of what was on its way; the rest is lost."""
        ends = self._up.pop(frozenset((one, two)), ())
        for end in ends:
            if end.silent:
                end.on_way.clear()
            for _ in range(self._random.randint(0, len(end.on_way))):
                self._deliver(end)
            self._old_frames.extend((end.owner, end.peer, end.other, frame) for _, frame in end.on_way)
            end.on_way.clear()
        for end in ends:
            if end.owner in self._hosts:
                self._hosts[end.owner].disconnected(end)

    def silence(self, one: str, two: str) -> None:
        """Let nothing more through from one to the other until the connection is cut."""
        for end in self._up.get(frozenset((one, two)), ()):
            end.silent = end.silent or end.owner == one

    def fast_again(self, one: str, two: str) -> None:
        self.slow.pop((one, two), None)

    def send(self, end: End, frame: bytes) -> None:
        if self._up.get(frozenset((end.owner, end.peer)), (None, None)).count(end):
            delay_s = self.slow.get((end.owner, end.peer), 0.02) * self._random.random()
            earliest_s = end.on_way[-1][0] if end.on_way else 0.0
            end.on_way.append((max(self.now_s + delay_s, earliest_s), frame))

    def deliver_due(self, name: str) -> None:
        for ends in list(self._up.values()):
            for end in ends:
                while end.peer == name and not end.silent and end.on_way and end.on_way[0][0] <= self.now_s:
                    self._deliver(end)
        if self.replays and self._old_frames and self._random.random() < 0.05:
            self._replay()

    def links(self) -> list[tuple[str, str]]:
        return [(ends[0].owner, ends[1].owner) for ends in self._up.values()]

    def _deliver(self, end: End) -> None:
        _, frame = end.on_way.popleft()
        if end.peer in self._hosts:
            self._hosts[end.peer].received(end.other, frame)

    def _replay(self) -> None:
        """Show a frame of a dead connection to its receiver again: over its old link, and over the current one."""
        sender, receiver, old_end, frame = self._old_frames.popleft()
        if receiver in self._hosts:
            self._hosts[receiver].received(old_end, frame)
            for end in self._up.get(frozenset((sender, receiver)), ()):
                if end.owner == receiver:
                    self._hosts[receiver].received(end, frame)
