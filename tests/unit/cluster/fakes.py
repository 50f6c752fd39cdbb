"""A voter's surroundings under a test's control."""

from pathlib import Path
from random import Random

from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import DEFAULT_BOUNDS, Bounds
from cluster.frames import Frame, Message, decode_frame, encode_frame
from cluster.identity import create_disk
from cluster.log_store import LogStore
from cluster.ports import Identity, StateMachine, Timing
from cluster.replica import Replica
from cluster.room import boundless
from tests.simulation.cluster.later import LaterExecutor
from tests.simulation.cluster.machine import Appends

CLUSTER = "11111111-2222-4333-8444-555555555555"


def identity(name: str = "node1", voters: int = 3, cluster_id: str = CLUSTER) -> Identity:
    members = {f"node{rank}": f"{rank:032x}" for rank in range(1, voters + 1)}
    return Identity(cluster_id, 1, name, members[name], members)


class ManualClock:
    def __init__(self) -> None:
        self.mono, self.wall = 100.0, 1_700_000_000_000

    def mono_s(self) -> float:
        return self.mono

    def wall_ms(self) -> int:
        return self.wall


class FakeLink:
    """Remembers what was sent; `say` makes what the peer would send."""

    def __init__(self, peer: str, session: str = "s1", disk_id: str | None = None) -> None:
        self._peer, self._session = peer, session
        self._disk_id = identity(voters=9).members.get(peer, "") if disk_id is None else disk_id
        self.frames: list[Frame] = []
        self.closed: list[str] = []

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
        self.frames.append(decode_frame(frame))

    def close(self, why: str) -> None:
        self.closed.append(why)

    def sent(self, kind: type) -> list[Frame]:
        return [frame for frame in self.frames if isinstance(frame.message, kind)]

    def say(self, term: int, message: Message, session: str | None = None) -> bytes:
        return encode_frame(Frame(session or self._session, term, 5, 1, message))


class Bench:
    """One replica with fake links to its peers."""

    def __init__(
        self,
        home: Path,
        *,
        voters: int = 3,
        machine: StateMachine | None = None,
        seed: int = 1,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        self.executor, self.bounds = LaterExecutor(), bounds
        self.clock, self.identity, self.home = ManualClock(), identity(voters=voters), home
        self.machine, self._seed = machine or Appends(), seed
        self.free_bytes = boundless()
        if not (home / "raft.db").exists():
            create_disk(home, self.identity)
        self.open()

    def open(self) -> None:
        self.log = LogStore(self.home / "raft.db")
        path = self.home / "checkpoint.db"
        self.checkpoint = CheckpointStore(path, self.identity, self.machine, self.log.first_index)
        self.replica = Replica(
            self.identity,
            self.log,
            self.checkpoint,
            clock=self.clock,
            randomness=Random(self._seed),
            timing=Timing(),
            executor=self.executor,
            bounds=self.bounds,
            free_bytes=lambda: self.free_bytes,
        )
        self.links: dict[str, FakeLink] = {}

    def link(self, peer: str, session: str = "s1", disk_id: str | None = None) -> FakeLink:
        link = self.links[peer] = FakeLink(peer, session, disk_id)
        self.replica.connected(link)
        return link

    def hear(self, peer: str, term: int, message: Message, *, tick: bool = True) -> None:
        link = self.links[peer]
        self.replica.received(link, link.say(term, message))
        if tick:
            self.replica.tick()

    def wait(self, seconds: float, step_s: float = 0.02) -> None:
        """Let virtual time pass, ticking."""
        end_s = self.clock.mono + seconds
        while self.clock.mono < end_s:
            self.clock.mono += step_s
            self.replica.tick()
