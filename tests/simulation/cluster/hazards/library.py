"""PySyncObj as it ships, under a script: its own journal and dump files, nothing of it replaced or left out.

What is put around it is only what any user supplies (a machine, a transport, a clock), and places at which its process
may be killed or its power lost. It never syncs, so a journal survives power loss as it was when the host last wrote it
back (`written_back`).
"""

import copy
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated, syncobj
from pysyncobj.journal import FileJournal
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from cluster.library import NoPoller
from tests.simulation.cluster.hazards.rig import APPLIED, FAR_S, REFUSED, TWICE, TWO_AT_ONE_INDEX, UNKNOWN, Rig
from tests.simulation.cluster.world import Killed

MEANS = {  # as its documentation describes the codes
    FAIL_REASON.SUCCESS: APPLIED,
    FAIL_REASON.QUEUE_FULL: REFUSED,
    FAIL_REASON.MISSING_LEADER: REFUSED,
    FAIL_REASON.DISCARDED: REFUSED,
    FAIL_REASON.NOT_LEADER: REFUSED,
    FAIL_REASON.LEADER_CHANGED: REFUSED,
    FAIL_REASON.REQUEST_DENIED: REFUSED,
    FAIL_REASON.UNKNOWN_OUTCOME: UNKNOWN,
}


class Wire(Transport):  # type: ignore[misc]  # the library carries no types
    """Messages go to the script."""

    def __init__(self, rig: "LibraryRig", name: str) -> None:
        super().__init__(None, None, [])
        self._rig, self._name = rig, name

    def send(self, node: Any, message: Any) -> bool:
        return self._rig.send(self._name, node.id, message)


class Appends(SyncObj):  # type: ignore[misc]  # the library carries no types
    """A user's machine: a list of what was applied, in order."""

    def __init__(self, rig: "LibraryRig", name: str, conf: Any) -> None:
        self.rig, self.name, self.wire, self.last = rig, name, Wire(rig, name), 0  # before: not in snapshots
        peers = [rig.nodes[other] for other in rig.others(name)]
        super().__init__(rig.nodes[name], peers, conf=conf, transport=self.wire)
        self.ops: list[str] = []

    @replicated  # type: ignore[misc]  # the library carries no types
    def append(self, op: str, padding: bytes) -> str:
        assert padding is not None
        self.rig.applied(self, op)
        self.ops.append(op)
        if op.startswith("poison"):
            raise ValueError("a command that cannot be applied")
        return op

    def private(self, name: str) -> Any:
        return getattr(self, f"_SyncObj__{name}")


class LibraryRig(Rig):
    """A cluster of the library's own nodes.

    Attributes:
        settings_of: settings that only some nodes have.
        meta_is_lost: what power loss makes of a file that was renamed and never synced: an empty one.
        failures: exceptions out of ticks and handlers; the library's own thread logs them and goes on.
        drops_on_failure: whether the transport ends a connection whose message made the handler raise.
        drops: how often it did.
        sent: messages, and bytes in them, handed to the transport.
        point: called at each place where a process may be killed, with the name of the journal's method.
        call_s: what a look at the clock costs; some of its loops end only by the clock.
    """

    beat_s = 0.11

    def __init__(self, home: Path, patch: pytest.MonkeyPatch, voters: int = 3, **settings: Any) -> None:
        super().__init__(voters)
        self._home, self._settings, self.call_s = home, settings, 1e-5
        self.nodes = {name: Node(name) for name in self.names}
        self.live: dict[str, Appends] = {}
        self.ways: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self._up: set[frozenset[str]] = set()
        self.failures: Counter[str] = Counter()
        self.meta_is_lost = False
        self.settings_of: dict[str, dict[str, Any]] = {}
        self.drops_on_failure, self.drops = False, 0
        self.sent = self.sent_bytes = 0
        self.point: Callable[[str], None] = lambda _: None
        self.silent: set[tuple[str, str]] = set()
        self._entries: dict[int, str] = {}
        self._told: dict[str, list[str]] = defaultdict(list)
        self._platter: dict[str, bytes] = {}
        patch.setattr(syncobj, "monotonicTime", self._clock)
        patch.setattr(syncobj, "random", Random(1))
        patch.setattr(syncobj, "createPoller", lambda _: NoPoller())
        for method in ("add", "deleteEntriesFrom"):
            patch.setattr(FileJournal, method, self._with_point(method, getattr(FileJournal, method)))

    def _clock(self) -> float:
        self.now_s += self.call_s
        return self.now_s

    def _with_point(self, name: str, method: Callable[..., None]) -> Callable[..., None]:
        def passing(journal: FileJournal, *args: Any) -> None:
            self.point(f"before {name}")
            method(journal, *args)
            self.point(f"after {name}")

        return passing

    # ---- processes and links

    def start(self, name: str) -> None:
        folder = self._home / name
        folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {
            "journalFile": str(folder / "journal"),
            "fullDumpFile": str(folder / "dump"),
            "useFork": False,
        }
        settings = {**settings, **self._settings, **self.settings_of.get(name, {})}
        conf = SyncObjConf(autoTick=False, logCompactionMinTime=10**9, **settings)
        self.live[name] = Appends(self, name, conf)
        self.postpone(name)

    def folder(self, name: str) -> Path:
        return self._home / name

    def kill(self, name: str, *, power: bool = False, heard: bool = False) -> None:
        for other in self.others(name):
            if heard:
                self.deliver(name, other)
            self.cut(name, other)
        node = self.live.pop(name)
        journal = node.private("raftLog")
        if isinstance(journal, FileJournal):
            file = journal._FileJournal__journalFile
            file._ResizableFile__mm.close()
            file._ResizableFile__f.close()
        if power:
            (self.folder(name) / "journal").write_bytes(self._platter[name])
            if self.meta_is_lost:
                (self.folder(name) / "journal.meta").write_bytes(b"")

    def written_back(self, name: str) -> None:
        """The host happens to write the journal of a voter back to its disk now."""
        self._platter[name] = (self.folder(name) / "journal").read_bytes()

    def life(self, name: str) -> object | None:
        return self.live.get(name)

    def join(self, one: str, two: str) -> None:
        if frozenset((one, two)) in self._up or one not in self.live or two not in self.live:
            return
        self._up.add(frozenset((one, two)))
        for here, there in ((one, two), (two, one)):
            self._run(here, lambda here=here, there=there: self.live[here].wire._onNodeConnected(self.nodes[there]))

    def cut(self, one: str, two: str) -> None:
        if frozenset((one, two)) not in self._up:
            return
        self._up.discard(frozenset((one, two)))
        for here, there in ((one, two), (two, one)):
            self.ways[here, there].clear()
            self.silent.discard((here, there))
            self._run(here, lambda here=here, there=there: self.live[here].wire._onNodeDisconnected(self.nodes[there]))

    def silence(self, one: str, two: str) -> None:
        self.silent.add((one, two))

    def send(self, one: str, two: str, message: Any) -> bool:
        if frozenset((one, two)) not in self._up:
            return False
        self.sent += 1
        self.sent_bytes += sum(len(entry[0]) for entry in message.get("entries", ())) + len(message.get("data", b""))
        if (one, two) not in self.silent:
            self.ways[one, two].append(copy.deepcopy(message))
        return True

    def on_way(self, one: str, two: str) -> int:
        return len(self.ways[one, two])

    def deliver(self, one: str, two: str, count: int | None = None) -> int:
        way = self.ways[one, two]
        carried = 0
        for _ in range(len(way) if count is None else count):
            if not way:
                break
            message = way.popleft()
            carried += 1
            failures = self.failures.total()
            self._run(two, lambda message=message: self.live[two].wire._onMessageReceived(self.nodes[one], message))
            if self.drops_on_failure and self.failures.total() > failures:
                self.drops += 1
                self.cut(one, two)
                self.join(one, two)
        return carried

    def _run(self, name: str, act: Callable[[], None]) -> None:
        """Let a node's code run as its own thread does: an exception is logged and forgotten."""
        if name not in self.live:
            return
        try:
            act()
        except Killed:
            self.kill(name)
        except Exception as error:  # noqa: BLE001 - whatever it raises
            self.failures[f"{type(error).__name__}: {error}"] += 1
        self._note_leader(name)

    def tick(self, name: str) -> None:
        self._run(name, lambda: self.live[name].doTick(0.0))

    def flow(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 0.05
            for name in self.names:
                for other in self.others(name):
                    self.deliver(other, name)
                self.tick(name)

    def stand(self, name: str) -> None:
        self.live[name]._SyncObj__raftElectionDeadline = 0.0
        self.tick(name)

    def postpone(self, name: str, seconds: float = FAR_S) -> None:
        self.live[name]._SyncObj__raftElectionDeadline = self.now_s + seconds

    # ---- what there is to see

    def leads(self, name: str) -> bool:
        return bool(self.live[name]._isLeader())

    def term(self, name: str) -> int:
        return int(self.live[name].raftCurrentTerm)

    def log(self, name: str) -> list[tuple[int, int]]:
        return [(index, term) for _, index, term in self.live[name].private("raftLog")[:]]

    def state(self, name: str) -> list[str]:
        return list(self.live[name].ops)

    def answers(self, op: str) -> list[str]:
        return self._told[op]

    def match(self, leader: str, name: str) -> int:
        return int(self.live[leader].private("raftMatchIndex")[self.nodes[name]])

    def compact(self, name: str) -> None:
        self.live[name].forceLogCompaction()
        self.tick(name)  # the dump
        self.tick(name)  # the journal

    def applied(self, node: Appends, op: str) -> None:
        """A machine applies a command: at which index, and was it there already?"""
        index = node.raftLastApplied + 1
        if self._entries.setdefault(index, op) != op:
            self.found.add(TWO_AT_ONE_INDEX)
        if index <= node.last:
            self.found.add(TWICE)
        node.last = index

    def _submit(self, name: str, op: str, size: int) -> None:
        self.live[name].append(op, bytes(size), callback=lambda _, code: self._told[op].append(MEANS[code]))

    def close(self) -> None:
        for name in list(self.live):
            self.kill(name)
