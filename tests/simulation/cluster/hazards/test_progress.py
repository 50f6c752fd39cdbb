"""Hazards 16, 17 and 18: what keeps the library from ever getting done, and what bounds us."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pysyncobj.config import SERIALIZER_STATE

from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import SMALL, OurRig
from tests.simulation.cluster.hazards.rig import APPLIED, Rig

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"


# ---- 16, R: who lacks much is asked again and again


def comes_back_with_another_tail(rig: Rig, seconds: float) -> bool:
    """A voter with 40 entries of its own meets a leader that has 60 others; does it catch up within this time?"""
    rig.begin()
    rig.cut_off(ONE)
    for _ in range(40):
        rig.propose(ONE)
    rig.beat(ONE)
    rig.elect(TWO, [THREE])
    for _ in range(60):
        rig.propose(TWO)
    rig.agree(TWO, [THREE])
    rig.elect(THREE, [TWO])
    rig.agree(THREE, [TWO])
    rig.join(ONE, TWO)
    rig.join(ONE, THREE)
    end_s = rig.now_s + seconds
    while rig.now_s < end_s and len(rig.state(ONE)) < 60:
        rig.flow(0.1)
    return len(rig.state(ONE)) == 60


def test_hazard_16_r_the_library_sends_for_ever_and_gets_nowhere(library: NewLibrary) -> None:
    rig = library(appendEntriesBatchSizeBytes=200)
    assert not comes_back_with_another_tail(rig, 20.0)
    assert rig.sent_bytes > 200_000


def test_hazard_16_r_ours_finds_where_the_logs_part_and_sends_the_rest_once(ours: NewOurs) -> None:
    rig = ours(batch_bytes=200)
    assert comes_back_with_another_tail(rig, 1.0)
    assert rig.network.sent_bytes < 30_000
    rig.heal()
    assert rig.found == set()


# ---- 17, M: a command larger than a batch


def test_hazard_17_m_the_library_may_never_replicate_a_command_of_certain_sizes(library: NewLibrary) -> None:
    rig = library()
    rig.drops_on_failure = True
    rig.begin()
    rig.propose(ONE, 131_000 - 12)
    rig.flow(5.0)
    assert rig.told(APPLIED) == []
    assert rig.drops > 10


@pytest.mark.parametrize("size", [65_536, 131_000 - 12, 131_072, 4_000_000])
def test_hazard_17_m_ours_sends_a_large_command_whole(ours: NewOurs, size: int) -> None:
    rig = ours(batch_bytes=65_536)
    rig.begin()
    op = rig.propose(ONE, size)
    rig.flow(0.2)
    assert rig.answers(op) == [APPLIED]
    assert rig.state(THREE) == [op]


# ---- 18, F: a follower needs a snapshot, and there is none yet


def lags_behind_the_log(rig: Rig) -> None:
    rig.begin()
    rig.cut_off(THREE)
    for _ in range(10):
        rig.propose(ONE)
    rig.agree(ONE, [TWO])
    rig.compact(ONE)


def test_hazard_18_f_the_library_floods_the_follower(library: NewLibrary) -> None:
    state = [SERIALIZER_STATE.NOT_SERIALIZING]

    def write(path: str, data: Any) -> None:
        Path(path).write_text(str(len(data)))

    rig = library(serializer=write, deserializer=lambda _: (), serializeChecker=lambda: state[0])
    rig.begin()
    rig.cut_off(THREE)
    for _ in range(10):
        rig.propose(ONE)
    rig.agree(ONE, [TWO])
    rig.live[ONE].forceLogCompaction()
    for state[0] in (SERIALIZER_STATE.NOT_SERIALIZING, SERIALIZER_STATE.SUCCESS):
        rig.tick(ONE)
    for _ in range(10):
        rig.propose(ONE)
    rig.agree(ONE, [TWO])
    rig.live[ONE].forceLogCompaction()
    for state[0] in (SERIALIZER_STATE.NOT_SERIALIZING, SERIALIZER_STATE.SERIALIZING):
        rig.tick(ONE)
    rig.join(ONE, THREE)
    rig.call_s = 1e-4  # the loop ends by the clock alone
    before = rig.sent
    rig.beat(ONE)
    assert rig.sent - before > 500


def test_hazard_18_f_ours_tells_the_follower_once_a_heartbeat(ours: NewOurs) -> None:
    rig = ours(bounds=SMALL)
    lags_behind_the_log(rig)
    rig.join(ONE, THREE)
    before = rig.network.sent
    for beats in range(1, 21):  # nobody makes a copy meanwhile
        rig.beat(ONE)
        rig.settle()
        assert rig.network.sent - before <= 4 + 4 * beats


def test_hazard_18_f_ours_puts_no_more_on_its_way_than_a_window(ours: NewOurs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.window.MAX_WINDOW_BYTES", 1000)
    rig = ours(batch_bytes=200)
    rig.begin()
    for _ in range(12):  # node 3 hears nothing for a while, and its link is alive
        for _ in range(5):
            rig.propose(ONE, 200)
        rig.beat(ONE)
        rig.deliver(ONE, TWO)
        rig.deliver(TWO, ONE)
    end = rig.network.end(ONE, THREE)
    assert end is not None
    assert sum(len(frame) for _, frame in end.on_way) < 8_000
    rig.heal()
    assert rig.found == set()
