from pathlib import Path

import pytest

from cluster import log_tables, pace
from cluster.log_store import LogStore
from cluster.pace import News, due
from tests.unit.cluster.fakes import identity


@pytest.fixture
def log(tmp_path: Path) -> LogStore:
    log_tables.create(tmp_path / "raft.db", identity())
    log = LogStore(tmp_path / "raft.db")
    log.set_term(1, None)
    for index in range(2, 22):
        log.append(b"\x00" + bytes(99), index, 1)
    return log


def indices(log: LogStore, applied: int, last: int) -> list[int]:
    return [entry.index for entry in due(log, applied, last)]


def test_what_is_behind_and_not_beyond(log: LogStore) -> None:
    assert indices(log, 3, 7) == [4, 5, 6, 7]
    assert indices(log, 7, 7) == indices(log, 9, 7) == []


def test_bounded_in_entries_and_in_bytes(log: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "MAX_APPLIED_PER_TICK", 5)
    assert indices(log, 1, 21) == [2, 3, 4, 5, 6]
    monkeypatch.setattr(pace, "MAX_APPLIED_BYTES_PER_TICK", 250)
    assert indices(log, 1, 21) == [2, 3, 4]
    monkeypatch.setattr(pace, "MAX_APPLIED_BYTES_PER_TICK", 1)
    assert indices(log, 1, 21) == [2], "at least one, or it never goes on"


def test_entries_are_told_at_once_and_a_commit_index_alone_waits_for_company() -> None:
    news = News(patience_s=0.01)
    assert news.due(1, 1, 5.0), "nothing was ever told"
    news.told(1, 1)
    assert not news.due(1, 1, 6.0)
    assert news.due(2, 1, 6.0)
    news.told(2, 1)
    assert not news.due(2, 2, 7.0)
    assert not news.due(2, 2, 7.009)
    assert news.due(3, 2, 7.009), "there is company"
    assert news.due(2, 2, 7.011), "it has waited long enough"
    news.told(2, 2)
    assert not news.due(2, 3, 8.0), "each waits for itself"
    news.forget()
    assert news.due(2, 3, 8.0)
