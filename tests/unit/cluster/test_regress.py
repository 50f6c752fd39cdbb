import pytest

from cluster.regress import Claims, Floor, Mark, claims_at_start, made_good, went_back

ME = "node1"


@pytest.mark.parametrize(
    ("mark", "store", "claims"),
    [
        # as much as the mark knows, or more: a power loss may have taken the newest mark
        (Mark(9, 3, 40), (9, 3, None), Claims(3, None, None)),
        (Mark(9, 3, 40), (9, 3, "node2"), Claims(3, "node2", None)),
        (Mark(9, 3, 40), (12, 4, "node2"), Claims(4, "node2", None)),
        # an earlier loss that nobody has made good
        (Mark(9, 5, 20, Floor(3, 40)), (9, 5, "node2"), Claims(5, "node2", Floor(3, 40))),
        (Mark(9, 5, 20, Floor(3, 40)), (10, 6, None), Claims(6, None, Floor(3, 40))),
        # less: the vote of the mark's term is given, whoever has it
        (Mark(9, 3, 40), (8, 2, None), Claims(3, ME, Floor(3, 40))),
        (Mark(9, 3, 40), (8, 2, "node2"), Claims(3, ME, Floor(3, 40))),
        (Mark(9, 3, 40), (8, 3, None), Claims(3, ME, Floor(3, 40))),
        (Mark(9, 3, 40), (8, 3, "node2"), Claims(3, "node2", Floor(3, 40))),
        (Mark(9, 3, 40), (0, 0, None), Claims(3, ME, Floor(3, 40))),
        # less once more, before the first loss was made good: the later end counts
        (Mark(9, 5, 20, Floor(3, 40)), (8, 5, None), Claims(5, ME, Floor(5, 20))),
        (Mark(9, 3, 20, Floor(3, 40)), (8, 3, None), Claims(3, ME, Floor(3, 40))),
    ],
)
def test_what_a_voter_may_go_on_from(mark: Mark, store: tuple[int, int, str | None], claims: Claims) -> None:
    syncs, term, voted_for = store
    assert claims_at_start(mark, syncs=syncs, term=term, voted_for=voted_for, name=ME) == claims
    assert went_back(mark, syncs) == (syncs < mark.syncs)


@pytest.mark.parametrize(
    ("leader_term", "matched", "matched_term", "committed", "good"),
    [
        (3, 40, 3, 40, True),  # the leader of that term has given back all up to the mark
        (3, 39, 3, 39, False),
        (3, 40, 3, 41, False),  # and up to what it has committed: the mark may have missed the last entries
        (3, 41, 3, 41, True),
        (4, 90, 3, 40, False),  # a later leader's own first entry stands behind all that it must hold
        (4, 40, 3, 40, False),
        (4, 30, 4, 25, True),  # even where the log is shorter now: what is missing was committed by nobody
        (4, 30, 4, 31, False),
        (5, 50, 4, 40, False),
        (5, 50, 5, 50, True),
    ],
)
def test_when_a_loss_is_made_good(
    leader_term: int, matched: int, matched_term: int, committed: int, good: bool
) -> None:
    found = made_good(
        Floor(3, 40), leader_term=leader_term, matched=matched, matched_term=matched_term, committed=committed
    )
    assert found is good
