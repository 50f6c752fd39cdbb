"""Hazard 21: what anybody who reaches the port can make a voter do."""

import ast
import pickle
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pysyncobj.pickle
import pytest
from pysyncobj import syncobj
from pysyncobj.node import Node
from pysyncobj.poller import POLL_EVENT_TYPE
from pysyncobj.tcp_connection import TcpConnection

from cluster.frames import Append, Consensus, Frame, PreVote, RequestVote, encode_frame
from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import SMALL, OurRig
from tests.simulation.cluster.network import End

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"
MEMBERSHIP = b"\x02"
TRACE = "fencepost_test_a_stranger_was_here"


class Bomb:
    """Unpickled, it runs what its sender chose."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return exec, (f"import sys; sys.modules[{TRACE!r}] = sys",)


class Socket:
    """A connection that brings some bytes."""

    def __init__(self, brings: bytes) -> None:
        self._brings = [brings]

    def fileno(self) -> int:
        return 7

    def getsockopt(self, *_: int) -> int:
        return 0

    def recv(self, _: int) -> bytes:
        if not self._brings:
            raise BlockingIOError(11, "nothing more yet")
        return self._brings.pop()

    def close(self) -> None:
        """Nothing is open."""


class Poller:
    def subscribe(self, fileno: int, callback: Callable[[int, int], None], _: int) -> None:
        self.ready = lambda: callback(fileno, POLL_EVENT_TYPE.READ)

    def unsubscribe(self, fileno: int) -> None:
        """Nothing waits for it."""


def bomb() -> bytes:
    packed = zlib.compress(pickle.dumps(Bomb(), 2))
    return struct.pack("i", len(packed)) + packed


def test_hazard_21_sec_the_library_runs_what_anybody_sends() -> None:
    poller = Poller()
    TcpConnection(poller, socket=Socket(bomb()))
    poller.ready()
    assert sys.modules.pop(TRACE, None) is sys


def test_hazard_21_sec_the_library_lets_a_stranger_remove_a_voter_and_depose_a_leader(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    remove = MEMBERSHIP + pickle.dumps(["rem", TWO, Node(TWO)], 2)
    leader, last = rig.live[ONE], rig.log(ONE)[-1][0]
    entry = {"entries": [(remove, last + 1, 9)], "prevLogIdx": last, "prevLogTerm": rig.log(ONE)[-1][1]}
    leader.wire._onMessageReceived(
        Node("stranger"), {"type": "append_entries", "term": 9, "commit_index": last + 1, **entry}
    )
    leader.doTick(0.0)
    assert {node.id for node in leader.otherNodes} == {THREE}
    assert not rig.leads(ONE)


def test_hazard_21_sec_the_library_takes_half_of_a_malformed_message(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    with pytest.raises(KeyError):
        rig.live[ONE].wire._onMessageReceived(Node("stranger"), {"type": "append_entries", "term": 99})
    assert rig.term(ONE) == 99
    assert not rig.leads(ONE)


def standing(rig: OurRig) -> dict[str, Any]:
    """What no stranger may change."""
    return {name: (rig.term(name), rig.leads(name), rig.log(name), rig.state(name)) for name in rig.world.live}


def hear(rig: OurRig, name: str, link: End, raw: bytes) -> None:
    rig.process(name).replica.received(link, raw)
    rig.tick(name)


def unwelcome(session: str, term: int, last: int) -> list[bytes]:
    """What no voter of this version would send over this link."""
    removes = Append(last, last, term, ((term, MEMBERSHIP + b"\x80\x02."),))
    frame = encode_frame(Frame(session, term, 0, 1, Append(last, last, term, ())))
    half = msgspec.msgpack.encode([session, 99, 0, 1, [2, last]])
    unknown = msgspec.msgpack.encode([session, 99, 0, 1, [77, 1]])
    other_session = encode_frame(Frame("another", term + 9, 0, 1, Append(last, last, term, ())))
    return [
        bomb(),
        pickle.dumps(Bomb(), 2),
        b"",
        frame[:-1],
        half,
        unknown,
        other_session,
        encode_frame(Frame(session, term, 0, 1, removes)),
        encode_frame(Frame(session, term, 0, 1, Append(last, last, term, ((term + 1, b"\x00x"),)))),
        bytes(9 << 20),
    ]


def test_hazard_21_sec_ours_is_unmoved_by_what_no_voter_would_send(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    before = standing(rig)
    follower = rig.process(TWO).replica
    frames = unwelcome(follower._roster.links[ONE].session, rig.term(TWO), rig.log(TWO)[-1][0])
    for raw in frames:
        link = follower._roster.links[ONE]
        assert isinstance(link, End)
        hear(rig, TWO, link, raw)
    assert follower.refused_frames == len(frames)
    assert standing(rig) == before
    assert TRACE not in sys.modules
    assert rig.heal()
    assert rig.found == set()


@pytest.mark.parametrize("word", [PreVote(1 << 20, 99), RequestVote(1 << 20, 99, bidden=True), Append(1, 1, 0, ())])
def test_hazard_21_sec_ours_takes_no_stranger_in(ours: NewOurs, word: Consensus) -> None:
    rig = ours()
    rig.begin()
    before = standing(rig)
    closed: list[str] = []
    link = End(rig.network, ONE, "stranger", "s99", "f" * 32)
    link.close = closed.append  # type: ignore[method-assign]  # what the transport would do
    rig.process(ONE).replica.connected(link)
    hear(rig, ONE, link, encode_frame(Frame("s99", 99, 0, 1, word)))
    assert closed == ["stranger is no member of this cluster"]
    assert standing(rig) == before
    assert rig.found == set()


def test_hazard_21_sec_ours_drops_what_comes_over_an_older_link(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    old = rig.process(ONE).replica._roster.links[TWO]
    rig.cut(ONE, TWO)
    rig.join(ONE, TWO)
    before = standing(rig)
    assert isinstance(old, End)
    hear(rig, ONE, old, encode_frame(Frame(old.session, 99, 0, 1, RequestVote(1 << 20, 99, bidden=True))))
    rig.process(ONE).replica.disconnected(old)
    rig.tick(ONE)
    assert standing(rig) == before
    assert TWO in rig.process(ONE).replica._roster.links


def test_hazard_21_sec_ours_unpickles_nothing_and_opens_none_of_the_librarys_sockets(
    ours: NewOurs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError

    for module, name in ((pickle, "loads"), (pickle, "load"), (pysyncobj.pickle, "loads"), (pysyncobj.pickle, "load")):
        monkeypatch.setattr(module, name, refused)
    monkeypatch.setattr(syncobj, "TCPTransport", refused)
    rig = ours(bounds=SMALL)
    rig.begin()
    rig.cut_off(THREE)
    for _ in range(10):
        rig.propose(ONE)
    rig.agree(ONE, [TWO])
    rig.compact(ONE)
    rig.compact(TWO)
    rig.kill(TWO)
    assert rig.heal()
    assert rig.process(THREE).replica._upkeep.installed == 1
    assert rig.found == set()


def test_hazard_21_sec_ours_imports_nothing_that_unpickles() -> None:
    imported: set[str] = set()
    for path in (Path(__file__).parents[4] / "cluster").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                imported |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    assert "pysyncobj.syncobj" in imported
    assert not {name for name in imported if name.rpartition(".")[2] in {"pickle", "marshal", "shelve", "dill"}}
