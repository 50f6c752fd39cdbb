"""What PySyncObj is given to live on: our clock and dice, no sockets, no poller, no thread (its public names only)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pysyncobj import SyncObjConf, syncobj
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from cluster.frames import Message, RequestVote
from cluster.journal import JournalFace
from cluster.outcome import FailStop
from cluster.ports import Clock, Randomness, Timing

FOLLOWER, CANDIDATE, LEADER = 0, 1, 2  # its states
ROLES: Final = ("follower", "candidate", "leader")

Post = Callable[[str, int, Message], None]  # (peer, term, message): to be sent once the tick is committed


class Peer(Node):  # type: ignore[misc]  # the library carries no types
    """A voter in the library's sets; hashed by rank, so that a seed replays whatever PYTHONHASHSEED is."""

    id: str

    def __init__(self, name: str, rank: int) -> None:
        super().__init__(name, rank=rank)

    def __hash__(self) -> int:
        return int(self.rank)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Peer) and self.id == other.id


class Wire(Transport):  # type: ignore[misc]  # the library carries no types
    """The one message that the library itself still sends is a candidate's request; all others are ours.

    Attributes:
        bidden: whether the candidacy that sends is one that the leader asked for.
    """

    ready = True

    def __init__(self, post: Post) -> None:
        super().__init__(None, None, [])
        self._post = post
        self.bidden = False

    def send(self, node: Peer, message: dict[str, Any]) -> bool:
        """Post a candidate's request.

        Raises:
            FailStop: it is any other message: a guard is missing.
        """
        if message["type"] != "request_vote":
            raise FailStop(f"the library tried to send {message['type']}")
        request = RequestVote(message["last_log_index"], message["last_log_term"], self.bidden)
        self._post(node.id, message["term"], request)
        return True


class NoPoller:
    """Nothing of the library waits for sockets."""

    def poll(self, timeout: float) -> None:
        """Wait for nothing."""


@contextmanager
def borrowed(clock: Clock, randomness: Randomness, journal: JournalFace | None = None) -> Iterator[None]:
    """Lend a clock and dice to the library, which reads them from globals of its module, and take them back.

    Every entry into the library happens inside, so that several voters in one process never share a clock.

    Args:
        clock: what it calls monotonic time; its own is CLOCK_MONOTONIC_RAW, comparable with nothing of ours.
        randomness: where its election timeouts come from.
        journal: the log that it is to find while it is constructed.
    """
    kept = (syncobj.monotonicTime, syncobj.random, syncobj.createJournal, syncobj.createPoller)
    syncobj.monotonicTime, syncobj.random = clock.mono_s, randomness
    syncobj.createJournal, syncobj.createPoller = (lambda _: journal), (lambda _: NoPoller())
    try:
        yield
    finally:
        syncobj.monotonicTime, syncobj.random, syncobj.createJournal, syncobj.createPoller = kept


def configuration(timing: Timing) -> Any:  # noqa: ANN401 - the library carries no types
    """Return the library's settings: driven by us, nothing forked, no changing members, no dump, no journal file."""
    return SyncObjConf(
        autoTick=False,
        useFork=False,
        dynamicMembershipChange=False,
        appendEntriesUseBatch=True,
        appendEntriesPeriod=timing.heartbeat_s,
        raftMinTimeout=timing.raft_min_s,
        raftMaxTimeout=timing.raft_max_s,
        leaderFallbackTimeout=2 * timing.raft_max_s - timing.raft_min_s / 2,  # looked at once a tick: 2 x max at most
        connectionTimeout=2 * timing.raft_max_s,  # only checked against raftMaxTimeout, never used without its sockets
    )
