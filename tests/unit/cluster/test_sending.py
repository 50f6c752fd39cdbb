from pathlib import Path

import pytest

from cluster import sending
from cluster.compaction import Bounds
from cluster.pieces import Piece, PieceKept
from cluster.sending import Sending
from cluster.snapshot_copy import Copy
from tests.simulation.cluster.later import LaterExecutor
from tests.unit.cluster.fakes import ManualClock

BOUNDS = Bounds(piece_bytes=10, window_pieces=2, stall_s=5.0)
DIGEST = bytes(32)


class Office:
    """A sender whose copies are 45 bytes and end at entry 30."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.executor, self.copies, self.fails = ManualClock(), LaterExecutor(), 0, False
        monkeypatch.setattr(sending, "make_copy", self._make)
        self.sending = Sending(home / "checkpoint.db", self.clock, self.executor, BOUNDS)
        self.sent: list[tuple[str, Piece]] = []

    def _make(self, _: Path, target: Path) -> Copy:
        if self.fails:
            raise OSError(28, "No space left on device")
        self.copies += 1
        target.write_bytes(bytes(45))
        return Copy(target, 30, 1, 45, DIGEST)

    def lead(self, *lagging: str, matched: int = 0, last: int = 60) -> list[tuple[str, int]]:
        """One tick of a leader; return what left: (voter, offset)."""
        self.sent.clear()
        self.sending.lead(lagging, dict.fromkeys(("node2", "node3"), matched), 25, last, may_copy=True)
        self.sending.pieces(lambda name, piece: self.sent.append((name, piece)))
        return [(name, piece.offset) for name, piece in self.sent]

    def copied(self, *lagging: str) -> list[tuple[str, int]]:
        self.lead(*lagging)
        self.executor.run_all()
        return self.lead(*lagging)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(tmp_path, monkeypatch)


def test_pieces_follow_acknowledgements_within_a_window(office: Office) -> None:
    assert office.copied("node2") == [("node2", 0), ("node2", 10)]
    assert office.lead("node2") == []
    office.sending.kept("node2", PieceKept(DIGEST, 10))
    assert office.lead("node2") == [("node2", 20)]
    for nonsense in (PieceKept(DIGEST, 10), PieceKept(DIGEST, 45), PieceKept(bytes(31) + b"x", 30)):
        office.sending.kept("node2", nonsense)
    assert office.lead("node2") == []
    office.sending.kept("node2", PieceKept(DIGEST, 30))
    assert office.lead("node2") == [("node2", 30), ("node2", 40)]
    assert len(office.sent[-1][1].content) == 5


def test_one_copy_serves_all_and_goes_when_nobody_needs_it(office: Office, tmp_path: Path) -> None:
    assert office.copied("node2") != []
    assert office.lead("node2", "node3") == [("node3", 0), ("node3", 10)]
    assert office.copies == 1
    assert list(tmp_path.iterdir()) != []
    office.lead(matched=60)
    assert (list(tmp_path.iterdir()), office.sending.pin) == ([], None)


def test_the_log_is_pinned_from_before_the_copy_until_the_voter_has_caught_up(office: Office) -> None:
    assert office.sending.pin is None
    office.lead("node2")
    assert (office.sending.pin, office.sending.copying) == (25, True)  # the copy may be of this tick
    office.executor.run_all()
    office.lead("node2")
    assert (office.sending.pin, office.sending.copying) == (30, False)
    office.lead(matched=30, last=60)
    assert office.sending.pin == 30
    office.lead(matched=50, last=90)
    assert office.sending.pin == 30
    office.lead(matched=60, last=99)
    assert office.sending.pin is None


@pytest.mark.parametrize("end", ["link", "office"])
def test_a_transfer_ends_with_its_link_and_with_the_leadership(office: Office, end: str) -> None:
    office.copied("node2")
    office.sending.kept("node2", PieceKept(DIGEST, 20))
    if end == "link":
        office.sending.drop("node2")
        assert office.lead("node2") == [("node2", 0), ("node2", 10)]
    else:
        office.sending.stop()
        assert office.sending.pin is None
        assert office.copied("node2") == [("node2", 0), ("node2", 10)]
        assert office.copies == 2


def test_a_voter_that_keeps_nothing_for_long_is_tried_anew(office: Office) -> None:
    office.copied("node2")
    office.clock.mono += 4.0
    office.sending.kept("node2", PieceKept(DIGEST, 10))
    office.lead("node2")
    office.clock.mono += 4.0
    assert office.lead("node2") == []
    assert office.sending.pin == 30
    office.clock.mono += 4.0
    assert office.lead("node2") == []
    assert (office.sending.pin, office.sending.copying) == (None, False), "a voter that takes nothing pins the log"
    office.clock.mono += 4.9
    assert office.copied("node2") == []
    office.clock.mono += 0.2
    assert office.copied("node2") == [("node2", 0), ("node2", 10)]
    assert office.copies == 2


def pauses(office: Office, count: int) -> list[float]:
    """Return how long after each end the next try began, second by second."""
    found, since, trying = list[float](), 0.0, True
    while len(found) < count:
        office.clock.mono += 1.0
        sent = office.copied("node2") != []
        if sent and not trying:
            found.append(office.clock.mono - since)
        elif office.sending.pin is None and trying:
            since = office.clock.mono
        trying = office.sending.pin is not None
    return found


def test_pauses_grow_up_to_a_bound_and_a_new_link_or_leadership_starts_at_once(office: Office) -> None:
    assert office.copied("node2") != []
    assert pauses(office, 8) == [5.0, 10.0, 20.0, 40.0, 80.0, 150.0, 150.0, 150.0]
    office.clock.mono += 6.0
    assert office.copied("node2") == []
    office.sending.drop("node2")
    assert office.copied("node2") != []
    office.clock.mono += 6.0
    assert office.copied("node2") == []
    office.sending.stop()
    assert office.copied("node2") != []


def test_a_voter_that_rests_keeps_nobody_else_waiting(office: Office) -> None:
    office.copied("node2")
    office.clock.mono += 6.0
    assert office.lead("node2") == []
    assert {name for name, _ in office.copied("node2", "node3")} == {"node3"}


def test_a_copy_that_cannot_be_written_is_tried_later(office: Office) -> None:
    office.fails = True
    assert office.copied("node2") == []
    assert (office.sending.pin, office.executor.waiting) == (None, 0)
    office.fails = False
    office.clock.mono += 5.0
    assert office.copied("node2") == [("node2", 0), ("node2", 10)]


def test_a_copy_that_cannot_be_read_any_more_stops_nobody(office: Office, tmp_path: Path) -> None:
    office.copied("node2")
    for file in tmp_path.iterdir():
        file.write_bytes(b"short")
    office.sending.kept("node2", PieceKept(DIGEST, 20))
    assert office.lead("node2") == []
    assert office.sending.pin is None
