import pytest

from cluster.digests import MAX_INDICES, Digests, is_odd
from cluster.outcome import FailStop

A, B, C = b"a", b"b", b"c"
NAMES = ("node1", "node2", "node3", "node4", "node5")


def odd_ones(claimed: str, voters: int, leader: str | None) -> set[str]:
    """Return who stops when the voters, in order, claimed these letters; a dot has said nothing."""
    claims = {name: letter.encode() for name, letter in zip(NAMES, claimed, strict=False) if letter != "."}
    return {name for name in NAMES[:voters] if is_odd(claims, name, voters=voters, leader=leader)}


@pytest.mark.parametrize(
    ("claimed", "leader", "stop"),
    [
        ("aaa", "node1", set()),
        ("aab", "node3", {"node3"}),  # the minority, though it leads
        ("baa", "node2", {"node1"}),
        ("aa.", "node1", set()),
        ("ab.", "node1", set()),  # the third will decide
        (".ab", None, set()),
        ("abc", "node2", {"node1", "node3"}),  # nobody will: the leader's word
        ("abc", None, set()),
        ("ab", "node1", {"node2"}),
        ("ab", "node2", {"node1"}),
        ("a.", "node2", set()),
        ("aabb.", "node1", set()),
        ("aabbc", "node3", {"node1", "node2", "node5"}),
        ("aaabc", "node4", {"node4", "node5"}),
        ("aaa.b", "node1", {"node5"}),
        ("aab..", "node3", set()),
        ("abc..", "node1", set()),  # two more could make three of any of them
        ("abcd.", "node1", {"node2", "node3", "node4"}),
    ],
)
def test_who_is_the_odd_one_out(claimed: str, leader: str | None, stop: set[str]) -> None:
    assert odd_ones(claimed, len(claimed), leader) == stop


def test_no_majority_is_ever_stopped() -> None:
    for code in range(4**5):
        claimed = "".join(".abc"[code // 4**place % 4] for place in range(5))
        for leader in (None, *NAMES):
            stopped = odd_ones(claimed, 5, leader)
            for letter in "abc":
                could_be = {name for name, said in zip(NAMES, claimed, strict=True) if said in {letter, "."}}
                if len(could_be) >= 3:
                    agreed = {name for name, said in zip(NAMES, claimed, strict=True) if said == letter}
                    assert not agreed & stopped, f"{claimed}, leader {leader}: {agreed} may be the majority"


def test_only_equal_indices_are_compared_and_the_odd_one_hears_which() -> None:
    digests = Digests("node1", NAMES[:3])
    digests.heard("node1", [(256, A), (300, B)], "node1")
    digests.heard("node2", [(256, A), (299, C)], "node1")
    digests.heard("node3", [(300, C)], "node1")
    assert "node3 at entry 300" in str(digests.dispute)
    with pytest.raises(FailStop, match=r"node2, node3 at entry 300.*checkpoint\.db"):
        digests.heard("node2", [(300, C)], "node1")


def test_a_dispute_ends_when_the_majority_is_on_this_side() -> None:
    digests = Digests("node1", NAMES[:3])
    digests.heard("node1", [(300, A)], None)
    digests.heard("node2", [(300, B)], None)
    assert "node3" in str(digests.dispute)
    digests.heard("node3", [(300, A)], None)
    assert digests.dispute is None


def test_what_was_said_over_an_ended_link_no_longer_counts() -> None:
    digests = Digests("node1", NAMES[:3])
    digests.heard("node2", [(300, B)], None)
    digests.heard("node3", [(300, B)], None)
    digests.forget("node2")
    digests.heard("node1", [(300, A)], None)
    assert "node3" in str(digests.dispute)


def test_what_is_remembered_is_bounded() -> None:
    digests = Digests("node1", NAMES[:3])
    for index in range(1, 3 * MAX_INDICES):
        digests.heard("node2", [(index, A)], None)
    assert len(digests._claims) == MAX_INDICES
    digests.heard("node1", [(1, B)], None)
    assert digests.dispute is None
