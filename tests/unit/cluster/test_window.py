import pytest

from cluster import window
from cluster.log_mirror import Entry
from cluster.window import Window


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MAX_BATCH_BYTES", 100)
    monkeypatch.setattr(window, "MAX_WINDOW_BYTES", 200)


def entries(*sizes: int) -> list[Entry]:
    return [Entry(bytes(size - window.ENTRY_OVERHEAD_BYTES), index, 1) for index, size in enumerate(sizes, start=5)]


def test_a_batch_ends_at_its_bound() -> None:
    assert len(Window().fit(entries(40, 40, 40))) == 2
    assert len(Window().fit(entries(50, 50, 1 + 16))) == 2


def test_one_entry_always_fits() -> None:
    assert len(Window().fit(entries(500, 20))) == 1
    assert Window().fit([]) == []


def test_a_full_window_waits_for_acknowledgements() -> None:
    flow = Window()
    waiting = entries(90, 90, 90, 90)
    for start in range(3):
        batch = flow.fit(waiting[start:])
        assert len(batch) == 1
        flow.sent(batch)
    assert not flow.fit(waiting[3:])
    flow.acknowledged(5)
    assert len(flow.fit(waiting[3:])) == 1


def test_a_new_link_starts_empty() -> None:
    flow = Window()
    flow.sent(entries(500))
    assert not flow.fit(entries(20))
    flow.clear()
    assert flow.fit(entries(20))
