from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.following import Accepted, judge
from cluster.frames import Append, Conflict
from cluster.log_mirror import Entry
from cluster.outcome import FailStop


@dataclass
class Log:
    """Terms of the entries from index 1 on; the command is a function of index and term, as Raft promises."""

    terms: list[int]
    commit_index: int = 1

    first_index = 1

    @property
    def last_index(self) -> int:
        return len(self.terms)

    def entry(self, index: int) -> Entry:
        assert 1 <= index <= self.last_index
        return Entry(command(index, self.terms[index - 1]), index, self.terms[index - 1])


def command(index: int, term: int) -> bytes:
    return b"\x00" + f"{index}/{term}".encode()


def batch(prev: int, prev_term: int, *terms: int, commit: int = 1) -> Append:
    entries = tuple((term, command(prev + 1 + k, term)) for k, term in enumerate(terms))
    return Append(commit, prev, prev_term, entries)


def test_a_batch_at_the_end_is_appended() -> None:
    verdict = judge(batch(3, 1, 2, 2), Log([0, 1, 1]))
    assert isinstance(verdict, Accepted)
    assert (verdict.truncate_from, verdict.matched) == (None, 5)
    assert [entry.index for entry in verdict.fresh] == [4, 5]


def test_a_shorter_batch_sent_again_truncates_nothing() -> None:
    verdict = judge(batch(1, 0, 1), Log([0, 1, 1, 1]))
    assert verdict == Accepted(truncate_from=None, fresh=(), matched=2, commit_index=1)


def test_a_heartbeat_truncates_nothing_and_acknowledges_only_what_it_names() -> None:
    verdict = judge(batch(2, 1, commit=4), Log([0, 1, 1, 1]))
    assert verdict == Accepted(truncate_from=None, fresh=(), matched=2, commit_index=2)


def test_only_a_real_conflict_truncates_and_from_there_only() -> None:
    verdict = judge(batch(1, 0, 1, 2, 2), Log([0, 1, 1, 1, 1]))
    assert isinstance(verdict, Accepted)
    assert (verdict.truncate_from, verdict.matched) == (3, 4)


def test_a_gap_asks_for_what_follows_our_end() -> None:
    assert judge(batch(9, 2), Log([0, 1, 1])) == Conflict(4)


def test_a_conflict_skips_the_whole_term_but_not_what_is_committed() -> None:
    assert judge(batch(5, 3), Log([0, 1, 2, 2, 2])) == Conflict(3)
    assert judge(batch(5, 3), Log([0, 1, 2, 2, 2], commit_index=3)) == Conflict(4)


def test_a_leader_that_contradicts_what_is_committed_stops_the_voter() -> None:
    with pytest.raises(FailStop):
        judge(batch(2, 9), Log([0, 1, 1], commit_index=3))
    with pytest.raises(FailStop):
        judge(batch(2, 1, 9), Log([0, 1, 1], commit_index=3))


terms = st.lists(st.integers(1, 4), max_size=8).map(lambda more: [0, *sorted(more)])


@given(terms, terms, st.data())
def test_any_batch_of_any_leader_leaves_a_prefix_of_the_leaders_log(
    ours: list[int], leaders: list[int], data: st.DataObject
) -> None:
    shared = 0
    while shared < min(len(ours), len(leaders)) and ours[shared] == leaders[shared]:
        shared += 1
    log = Log(ours, commit_index=data.draw(st.integers(1, shared)))
    prev = data.draw(st.integers(1, len(leaders)))
    count = data.draw(st.integers(0, len(leaders) - prev))
    verdict = judge(batch(prev, leaders[prev - 1], *leaders[prev : prev + count], commit=len(leaders)), log)
    if isinstance(verdict, Conflict):
        assert log.commit_index < verdict.next_index
        assert prev > len(ours) or ours[prev - 1] != leaders[prev - 1]
        return
    after = list(ours) if verdict.truncate_from is None else ours[: verdict.truncate_from - 1]
    after += [entry.term for entry in verdict.fresh]
    if prev <= shared:  # what is matched by index and term is equal up to there, as log matching promises
        assert after[: verdict.matched] == leaders[: verdict.matched]
        assert len(after) >= min(len(ours), shared), "something that matches was cut off"
    assert verdict.commit_index <= verdict.matched == prev + count
