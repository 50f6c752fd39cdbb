import hashlib
import zlib
from pathlib import Path

import pytest

from cluster import receiving
from cluster.pieces import Piece as Sent
from cluster.pieces import PieceKept
from cluster.receiving import Receiving
from cluster.snapshot_copy import INCOMING, Unsound
from tests.simulation.cluster.later import LaterExecutor
from tests.unit.cluster.fakes import identity

WHOLE = bytes(range(100))
DIGEST = hashlib.sha256(WHOLE).digest()


def piece(offset: int, size: int = 40, whole: bytes = WHOLE, crc: int | None = None) -> Sent:
    content = whole[offset : offset + size]
    digest = hashlib.sha256(whole).digest()
    return Sent(30, 1, digest, len(whole), offset, zlib.crc32(content) if crc is None else crc, content)


class Desk:
    """A receiver whose checks say what the test says."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.executor, self.sound, self.path = LaterExecutor(), True, home / INCOMING
        monkeypatch.setattr(receiving, "check_copy", self._check)
        self.receiving = Receiving(home, identity(), 1, self.executor)

    def _check(self, copy: object, *_: object) -> None:
        if not self.sound:
            raise Unsound(str(copy))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / INCOMING).write_bytes(b"left by an earlier life")
    return Desk(tmp_path, monkeypatch)


def test_pieces_in_order_become_the_copy_once_it_was_checked(desk: Desk) -> None:
    assert not desk.path.exists()
    kept = [desk.receiving.take("node2", piece(offset)) for offset in (0, 40, 80)]
    assert kept == [PieceKept(DIGEST, 40), PieceKept(DIGEST, 80), PieceKept(DIGEST, 100)]
    assert desk.receiving.checked() is None
    desk.executor.run_all()
    copy = desk.receiving.checked()
    assert copy is not None
    assert (copy.index, copy.term, copy.path.read_bytes()) == (30, 1, WHOLE)
    desk.receiving.done()
    assert desk.receiving.checked() is None
    assert not desk.path.exists()


def test_what_does_not_fit_is_dropped_and_the_rest_goes_on(desk: Desk) -> None:
    desk.receiving.take("node2", piece(0))
    for sender, wrong in (
        ("node2", piece(80)),  # a gap
        ("node3", piece(40)),  # another sender
        ("node2", piece(40, crc=7)),
        ("node2", piece(40, whole=WHOLE[::-1])),  # another copy
        ("node2", Sent(30, 1, DIGEST, 60, 40, zlib.crc32(WHOLE[40:80]), WHOLE[40:80])),  # beyond its total
    ):
        assert desk.receiving.take(sender, wrong) is None
    assert desk.receiving.take("node2", piece(40)) == PieceKept(DIGEST, 80)
    assert desk.receiving.take("node2", piece(40)) is None  # the same again


def test_another_copy_or_an_ended_link_begins_anew(desk: Desk) -> None:
    desk.receiving.take("node2", piece(0))
    other = WHOLE[::-1]
    assert desk.receiving.take("node3", piece(0, whole=other)) is not None
    assert desk.receiving.take("node2", piece(40)) is None
    desk.receiving.drop("node2")  # not its link
    assert desk.receiving.take("node3", piece(40, whole=other)) is not None
    desk.receiving.drop("node3")
    assert desk.receiving.take("node3", piece(80, whole=other)) is None


def test_nothing_touches_a_copy_that_is_being_checked(desk: Desk) -> None:
    desk.receiving.take("node2", piece(0, size=100))
    desk.receiving.drop("node2")
    assert desk.receiving.take("node3", piece(0, whole=WHOLE[::-1])) is None
    assert desk.path.read_bytes() == WHOLE


def test_an_unsound_copy_is_thrown_away_and_the_next_one_is_taken(desk: Desk) -> None:
    desk.sound = False
    desk.receiving.take("node2", piece(0, size=100))
    desk.executor.run_all()
    assert desk.receiving.checked() is None
    assert not desk.path.exists()
    assert desk.receiving.take("node2", piece(0)) == PieceKept(DIGEST, 40)


def test_a_full_disk_costs_the_copy_and_not_the_voter(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert desk.receiving.take("node2", piece(0)) is None
    monkeypatch.undo()
    assert desk.receiving.take("node2", piece(40)) is None
