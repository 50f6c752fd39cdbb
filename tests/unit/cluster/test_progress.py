from pathlib import Path

import pytest

from cluster.frames import Append, Conflict
from cluster.progress import Progress
from tests.unit.cluster.fakes import Bench
from tests.unit.cluster.test_replica import elect


def acknowledged(progress: Progress, *indices: int) -> list[tuple[int, int]]:
    """Let these come in; return, after each, what is matched and how much of it counts."""
    seen = []
    for index in indices:
        progress.acknowledged(index)
        seen.append((progress.matched, progress.counted))
    return seen


def test_an_acknowledgement_that_comes_late_takes_nothing_back() -> None:
    assert acknowledged(Progress(), 5, 9, 7) == [(5, 5), (9, 9), (9, 9)]


def test_on_a_new_link_nothing_counts_until_all_that_is_remembered_has_been_matched() -> None:
    progress = Progress()
    progress.linked(20)
    assert progress.next_index == 21, "nothing is remembered: where the own log ends"
    acknowledged(progress, 9)
    progress.linked(20)
    assert (progress.matched, progress.next_index) == (0, 10), "it is asked first whether it still has that"
    progress.contradicted(3)
    assert progress.next_index == 3, "where to send from may go back to the beginning"
    assert acknowledged(progress, 4, 8) == [(4, 0), (8, 0)]
    progress.linked(20)
    assert progress.next_index == 10, "a cut on the way does not lower what is remembered"
    assert acknowledged(progress, 8, 9, 12) == [(8, 0), (9, 9), (12, 12)]


def test_another_disk_or_leadership_remembers_nothing() -> None:
    progress = Progress()
    acknowledged(progress, 9)
    progress.linked(20)
    progress.lead(20)
    assert acknowledged(progress, 4) == [(4, 4)]


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
