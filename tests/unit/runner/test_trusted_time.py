from cluster.ports import PeerClock
from runner.settings import Timing
from runner.trusted_time import ClockState, Reckoning, fresh_clocks, look, state_of

TIMING = Timing()
T0 = 1_000_000_000


def looks(rows: list[tuple[float, list[int]]], *, voters: int = 3, committed_ms: int = T0) -> list[Reckoning]:
    """Look once per (mono_s, clocks) row; return every reckoning."""
    found: list[Reckoning] = []
    before = None
    for mono_s, clocks in rows:
        before = look(before, sorted(clocks), mono_s=mono_s, committed_ms=committed_ms, voters=voters, timing=TIMING)
        committed_ms = before.now_ms
        found.append(before)
    return found


def at(mono_s: float, *offsets_ms: int) -> tuple[float, list[int]]:
    return mono_s, [T0 + round(mono_s * 1000) + offset for offset in offsets_ms]


def test_peers_clocks_are_advanced_and_old_ones_do_not_count() -> None:
    peers = [PeerClock("b", 5_000, 99.0), PeerClock("c", 9_000, 97.9), PeerClock("d", 4_000, 98.0)]
    assert fresh_clocks(6_500, peers, mono_s=100.0, seen_s=2.0) == (6_000, 6_000, 6_500)


def test_now_is_the_median_of_three_and_the_lower_of_two() -> None:
    assert looks([at(0.0, 0, 40, 3_600_000)])[0].now_ms == T0 + 40
    assert looks([at(0.0, 0, 40)])[0].now_ms == T0


def test_a_small_step_back_is_clamped_to_the_committed_now() -> None:
    first, second = looks([at(1.0, 0), at(1.1, -5_000)], voters=1)
    assert first.now_ms == T0 + 1_000
    assert second.now_ms == T0 + 1_000
    assert not second.stepped


def test_one_wild_clock_of_three_moves_nothing() -> None:
    rows = [at(0.0, 0, 10, 20), at(1.0, 0, 10, 3_600_000), at(2.0, -3_600_000, 10, 20)]
    assert [(one.stepped, one.now_ms - T0) for one in looks(rows)] == [(False, 10), (False, 1_010), (False, 2_010)]


def test_a_step_stops_and_now_runs_on_by_the_monotonic_clock() -> None:
    for step_ms in (3_600_000, -3_600_000):
        _, stepped = looks([at(0.0, 0, 0, 0), at(1.0, step_ms, step_ms, step_ms)])
        assert stepped.stepped
        assert stepped.now_ms == T0 + 1_000


def test_after_ten_seconds_of_agreement_the_step_is_believed() -> None:
    far = 3_600_000
    found = looks([at(0.0, 0, 0, 0), *(at(float(s), far, far, far + 4_000) for s in range(1, 13))])
    assert [one.stepped for one in found] == [False] + [True] * 10 + [False] * 2
    assert found[-1].now_ms == T0 + 12_000 + far


def test_disagreement_starts_the_ten_seconds_anew() -> None:
    far = 3_600_000
    rows = [at(0.0, 0, 0, 0), *(at(float(s), far, far, far) for s in range(1, 9))]
    rows += [at(9.0, far, far + 6_000, far - 6_000), *(at(float(s), far, far, far) for s in range(10, 21))]
    found = looks(rows)
    assert [one.stepped for one in found[1:]] == [True] * 19 + [False]


def test_without_a_majority_that_agrees_nothing_is_believed() -> None:
    far = -3_600_000
    found = looks([at(0.0, 0, 0, 0), *(at(float(s), far, 0) for s in range(1, 60))])
    assert all(one.stepped for one in found[1:])
    assert found[-1].now_ms == T0 + 59_000


def test_a_single_voter_waits_until_its_clock_was_steady() -> None:
    found = looks([at(0.0, 0), *(at(float(s), 60_000) for s in range(1, 12))], voters=1)
    assert [one.stepped for one in found] == [False] + [True] * 10 + [False]


def test_two_voters_need_both() -> None:
    alone = looks([at(0.0, 0, 0), *(at(float(s), 60_000) for s in range(1, 30))], voters=2)
    assert alone[-1].stepped
    both = looks([at(0.0, 0, 0), *(at(float(s), 60_000, 60_000) for s in range(1, 12))], voters=2)
    assert not both[-1].stepped


def test_a_clock_behind_the_checkpoint_at_the_takeover_is_a_step_and_one_ahead_is_not() -> None:
    (behind,) = looks([at(0.0, 0, 0, 0)], committed_ms=T0 + 5_001)
    assert behind.stepped
    assert behind.now_ms == T0 + 5_001
    (ahead,) = looks([at(0.0, 0, 0, 0)], committed_ms=T0 - 86_400_000)
    assert not ahead.stepped


def test_now_stands_still_after_a_believed_step_back_until_the_clocks_reach_it() -> None:
    far = -3_600_000
    found = looks([at(0.0, 0, 0, 0), *(at(float(s), far, far, far) for s in range(1, 15))])
    assert not found[-1].stepped
    assert found[-1].now_ms == found[-2].now_ms == T0 + 10_000


def test_what_an_operator_is_told_of_a_step_back() -> None:
    assert state_of(None, TIMING) is ClockState.OK
    far = -20_000
    found = looks([at(0.0, 0, 0, 0), *(at(float(s), far, far, far) for s in range(1, 40))])
    told = [state_of(reckoning, TIMING).value for reckoning in found]
    assert told == ["ok", *["clock_stepped"] * 10, *["clock_behind"] * 14, *["ok"] * 15]


def test_a_suspend_is_no_step() -> None:
    first, second = looks([at(0.0, 0, 0, 0), at(7_200.0, 0, 0, 0)])
    assert not first.stepped
    assert second == Reckoning(T0 + 7_200_000, T0 + 7_200_000, 7_200.0, stepped=False, agreed_since_s=0.0)
