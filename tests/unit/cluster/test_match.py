from cluster.match import Match


def test_an_acknowledgement_that_comes_late_takes_nothing_back() -> None:
    match = Match()
    assert [match.acknowledged(index) for index in (5, 9, 7)] == [(5, 5), (9, 9), (9, 9)]


def test_on_a_new_link_nothing_counts_until_all_that_is_remembered_has_been_matched() -> None:
    match = Match()
    assert match.new_link() == 0
    match.acknowledged(9)
    assert match.new_link() == 9
    assert match.seen == 0, "where to send from may go back to the beginning"
    assert [match.acknowledged(index) for index in (4, 8)] == [(4, 0), (8, 0)]
    assert match.new_link() == 9, "a cut on the way does not lower what is remembered"
    assert [match.acknowledged(index) for index in (8, 9, 12)] == [(8, 0), (9, 9), (12, 12)]
    assert match.new_link() == 12
