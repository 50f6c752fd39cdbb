from cluster.match import Match


def told(match: Match, *indices: int) -> list[tuple[int, int]]:
    found = []
    for index in indices:
        match.acknowledged(index)
        found.append((match.seen, match.counted))
    return found


def test_an_acknowledgement_that_comes_late_takes_nothing_back() -> None:
    assert told(Match(), 5, 9, 7) == [(5, 5), (9, 9), (9, 9)]


def test_on_a_new_link_nothing_counts_until_all_that_is_remembered_has_been_matched() -> None:
    match = Match()
    assert match.new_link() == 0
    match.acknowledged(9)
    assert match.new_link() == 9
    assert (match.seen, match.counted) == (0, 0), "where to send from may go back to the beginning"
    assert told(match, 4, 8) == [(4, 0), (8, 0)]
    assert match.new_link() == 9, "a cut on the way does not lower what is remembered"
    assert told(match, 8, 9, 12) == [(8, 0), (9, 9), (12, 12)]
    assert match.new_link() == 12
