"""Forty seeded clusters: kill -9 and power loss at any instant, delay, cuts, silence, stalls, replayed frames."""

import pytest

from tests.simulation.cluster.fuzz import replay_line, run_seed

SEEDS_PER_TEST = 10


@pytest.mark.parametrize("first", range(0, 40, SEEDS_PER_TEST))
def test_nothing_acknowledged_is_lost_and_nobody_diverges(first: int) -> None:
    acknowledged = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        violations, world = run_seed(seed)
        assert not violations, f"seed {seed}: {violations[:5]}\nreplay: {replay_line(seed)}"
        acknowledged += len(world.acknowledged)
    assert acknowledged > SEEDS_PER_TEST, "the faults left no room for work: this shows nothing"


def test_a_seed_replays_exactly() -> None:
    _, once = run_seed(3)
    _, again = run_seed(3)
    assert once.entries == again.entries
    assert once.digests == again.digests
    assert once.acknowledged == again.acknowledged
