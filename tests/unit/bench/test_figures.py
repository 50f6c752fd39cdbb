import time

import pytest

from bench.figures import Load, Shape, Window, spread


def test_a_window_counts_what_comes_back_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    window = Window(Load(Shape(clients=1, ops=10), warm_s=1.0, counted_s=2.0))
    for now[0], sent_s, accepted, goes_on in (
        (100.5, 100.4, True, True),  # warming
        (101.5, 101.4, True, True),
        (102.0, 101.7, True, True),
        (102.5, 102.4, False, False),
        (103.1, 102.9, True, False),  # too late
    ):
        assert window.answered(sent_s, accepted=accepted) is goes_on
    measured = window.measured()
    assert (measured.ops_per_s, measured.refused) == (10.0, 1)
    assert (measured.p50_ms, measured.p99_ms) == pytest.approx((300.0, 300.0))


def test_a_spread_shows_median_least_and_largest() -> None:
    assert spread([3000.0, 1.0, 20.0]) == "20 (1-3,000)"
    assert spread([1.0, 2.0], digits=1) == "1.5 (1.0-2.0)"
    assert spread([]) == "none"
