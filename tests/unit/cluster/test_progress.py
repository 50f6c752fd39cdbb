from cluster.progress import Progress


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
    progress.linked(20)
    assert progress.next_index == 13


def test_another_disk_or_leadership_remembers_nothing() -> None:
    progress = Progress()
    acknowledged(progress, 9)
    progress.linked(20)
    progress.lead(20)
    assert acknowledged(progress, 4) == [(4, 4)]


def test_what_contradicts_sends_never_from_further_on_nor_from_what_is_matched() -> None:
    progress = Progress()
    progress.lead(20)
    progress.contradicted(30)
    assert progress.next_index == 21
    progress.contradicted(0)
    assert progress.next_index == 2, "the first entry is everybody's"
    acknowledged(progress, 7)
    progress.contradicted(3)
    assert progress.next_index == 8
