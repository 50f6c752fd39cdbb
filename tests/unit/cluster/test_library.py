from random import Random

import pytest
from pysyncobj import syncobj

from cluster.frames import RequestVote
from cluster.journal import JournalFace
from cluster.library import Peer, Wire, borrowed
from cluster.log_store import LogStore
from cluster.log_tables import create
from cluster.outcome import FailStop
from tests.unit.cluster.fakes import ManualClock, identity


def test_clock_and_dice_are_lent_and_taken_back_whatever_happens() -> None:
    before = (syncobj.monotonicTime, syncobj.random, syncobj.createJournal, syncobj.createPoller)
    outer, inner, dice = ManualClock(), ManualClock(), Random(1)
    inner.mono = 7.0

    def fail_inside() -> None:
        with borrowed(outer, dice):
            assert syncobj.monotonicTime() == 100.0
            with borrowed(inner, dice):
                assert syncobj.monotonicTime() == 7.0
                assert syncobj.random is dice
            assert syncobj.monotonicTime() == 100.0
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - raised three lines above
        fail_inside()
    assert (syncobj.monotonicTime, syncobj.random, syncobj.createJournal, syncobj.createPoller) == before


def test_the_library_sends_nothing_but_requests_for_votes() -> None:
    posted: list[object] = []
    wire = Wire(lambda *message: posted.append(message))
    wire.send(Peer("node2", 1), {"type": "request_vote", "term": 3, "last_log_index": 5, "last_log_term": 2})
    wire.bidden = True
    wire.send(Peer("node2", 1), {"type": "request_vote", "term": 3, "last_log_index": 5, "last_log_term": 2})
    assert posted == [("node2", 3, RequestVote(5, 2)), ("node2", 3, RequestVote(5, 2, bidden=True))]
    for kind in ("append_entries", "next_node_idx", "apply_command", "apply_command_response", "timeout_now"):
        with pytest.raises(FailStop):
            wire.send(Peer("node2", 1), {"type": kind})


def test_the_library_cannot_drop_entries(tmp_path: object) -> None:
    path = tmp_path / "raft.db"
    create(path, identity())
    log = LogStore(path)
    journal = JournalFace(log)
    for drop in (journal.clear, lambda: journal.deleteEntriesFrom(0), lambda: journal.deleteEntriesTo(1)):
        with pytest.raises(FailStop):
            drop()
    assert journal[-1] == (b"\x01", 1, 0)
    assert journal[0:5] == [(b"\x01", 1, 0)]
    log.close()
