from pathlib import Path

import pytest

from cluster.frames import Append, Conflict
from cluster.progress import Progress
from tests.unit.cluster.fakes import Bench
from tests.unit.cluster.test_replica import elect


@pytest.mark.parametrize(
    ("next_index", "matched", "hint", "then"),
    [
        (9, 0, 5, 5),  # back to where the peer says
        (5, 0, 9, 5),  # never forward, by a hint that came late
        (9, 6, 3, 7),  # never below what it holds for certain
        (9, 0, 1, 2),  # never before the first entry
    ],
)
def test_a_contradiction_goes_back_and_never_forward_nor_below_what_is_matched(
    next_index: int, matched: int, hint: int, then: int
) -> None:
    progress = Progress()
    progress.matched, progress.next_index = matched, next_index
    progress.contradicted(hint)
    assert (progress.matched, progress.next_index) == (matched, then)


def test_a_conflict_is_answered_with_the_entries_that_are_missing_in_the_same_tick(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for peer in ("node2", "node3"):
        bench.link(peer)
    bench.replica.tick()
    term = elect(bench)
    sent = bench.links["node3"].sent(Append)
    bench.hear("node3", term, Conflict(2))
    answer = bench.links["node3"].sent(Append)[len(sent) :]
    batches = [frame.message for frame in answer if isinstance(frame.message, Append)]
    assert [(batch.prev_index, len(batch.entries)) for batch in batches] == [(1, 1)]
