from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runner.checkpoint.records import Attempt, AttemptState
from runner.checkpoint.waiting import Claimable
from runner.claims import match, rooms, served
from runner.contacts import Contact
from tests.unit.runner.rows import attempt, contact, held, pool


def free(
    *contacts: Contact,
    attempts: Sequence[Attempt] = (),
    retired: Collection[tuple[str, str]] = (),
    served_s: float = 0.0,
) -> dict[str, int]:
    found = rooms(contacts, attempts, retired, served_s=served_s, poll_s=5.0)
    return {room.contact.worker: room.free for room in found}


def waits(run_id: str = "r1", *, namespace: str = "demo", pool: str = "default", attempt: int = 1) -> Claimable:
    return Claimable(run_id, namespace, pool, attempt)


def matched(runs: list[Claimable], contacts: list[Contact], **pools: int) -> list[tuple[str, str]]:
    room = rooms(contacts, [], [], served_s=0.0, poll_s=5.0)
    limits = {name: pool(name, limit) for name, limit in ({"default": 64} | pools).items()}
    found = match(runs, room, limits, {})
    return [(one.op.run_id, one.op.worker) for one in found]


def test_claims_that_a_poll_could_not_know_of_take_its_slots() -> None:
    mine = [attempt("r1", state=AttemptState.CLAIMED), attempt("r2"), attempt("r3", incarnation="i0")]
    assert free(contact(slots=4, held=held("r2")), attempts=mine) == {"w1": 3}
    assert free(contact(slots=1), attempts=mine) == {}


def test_a_stop_that_waits_for_a_human_takes_no_slot_of_a_worker_that_gave_it_up() -> None:
    stopping = attempt("r1", state=AttemptState.CANCELLING)
    assert free(contact(slots=1), attempts=[stopping]) == {}
    assert free(contact(slots=1), attempts=[replace(stopping, unresolved=True)]) == {"w1": 1}


def test_silent_retired_and_full_workers_have_no_room() -> None:
    assert free(contact(slots=0)) == {}
    assert free(contact(), retired={("w1", "i1")}) == {}
    assert free(contact(served_s=0.0), served_s=10.0) == {"w1": 4}
    assert free(contact(served_s=0.0), served_s=10.1) == {}


def test_the_worker_with_most_room_is_next() -> None:
    runs = [waits(f"r{n}") for n in range(4)]
    workers = [contact("a", slots=1), contact("b", slots=2)]
    assert matched(runs, workers) == [("r0", "b"), ("r1", "b"), ("r2", "a")]


def test_a_worker_takes_only_its_own_pools() -> None:
    runs = [waits("r1", pool="gpu"), waits("r2")]
    workers = [contact("a", pools=frozenset({"default"})), contact("b", pools=frozenset({"gpu"}), slots=9)]
    assert matched(runs, workers, gpu=1) == [("r1", "b"), ("r2", "a")]


def test_a_pool_is_never_overbooked_in_one_command() -> None:
    runs = [waits("r1"), waits("r2", pool="small"), waits("r3", pool="small")]
    assert matched(runs, [contact()], small=1) == [("r1", "w1"), ("r2", "w1")]


def test_a_claim_carries_the_workers_pools_and_the_attempts_number() -> None:
    (room,) = rooms([contact(pools=frozenset({"default", "a"}))], [], [], served_s=0.0, poll_s=5.0)
    (found,) = match([waits(attempt=2)], [room], {"default": pool()}, {})
    op = found.op
    assert (op.attempt, op.incarnation, op.ledger, op.authorities) == (2, "i1", "l1", ("a", "default"))
    (room,) = rooms([contact(pools=None)], [], [], served_s=0.0, poll_s=5.0)
    (found,) = match([waits()], [room], {"default": pool()}, {})
    assert found.op.authorities == ("default",)


def waiting(**counts: int) -> list[Claimable]:
    """So many runs of each namespace, the first namespace's the oldest."""
    return [
        waits(f"r{n:02}-{k:04}", namespace=name) for n, (name, count) in enumerate(counts.items()) for k in range(count)
    ]


def turns(candidates: list[Claimable], slots: int, last: dict[str, int] | None = None) -> list[str]:
    room = rooms([contact(slots=slots)], [], [], served_s=0.0, poll_s=5.0)
    return [one.op.run_id for one in match(candidates, room, {"default": pool(limit=1_000)}, last or {})]


def test_namespaces_take_turns_and_within_one_the_oldest_is_first() -> None:
    many = waiting(a=100, b=2, c=1)
    assert turns(many[::-1], 6) == ["r00-0000", "r01-0000", "r02-0000", "r00-0001", "r01-0001", "r00-0002"]


def test_the_namespace_whose_last_claim_is_longest_ago_begins() -> None:
    many = waiting(a=100, b=1, c=1)
    assert turns(many, 1) == ["r00-0000"]
    assert turns(many, 1, {"a": 1}) == ["r01-0000"]
    assert turns(many, 1, {"a": 3, "b": 2, "c": 1}) == ["r02-0000"]


def test_a_run_that_fits_nowhere_costs_its_namespace_no_turn() -> None:
    runs = [waits("r1", namespace="a", pool="gpu"), *waiting(a=1, b=1)]
    assert turns(runs, 2) == ["r00-0000", "r01-0000"]


names = st.sampled_from(["a", "b", "c", "d"])


@given(
    counts=st.lists(st.tuples(names, st.sampled_from(["default", "small"])), max_size=60),
    slots=st.lists(st.integers(0, 5), max_size=4),
    small=st.integers(0, 3),
    last=st.dictionaries(names, st.integers(1, 9)),
)
def test_no_namespace_gets_two_claims_more_than_another_that_still_could(
    counts: list[tuple[str, str]], slots: list[int], small: int, last: dict[str, int]
) -> None:
    runs = [waits(f"r{n:03}", namespace=name, pool=where) for n, (name, where) in enumerate(counts)]
    workers = [contact(f"w{n}", slots=free) for n, free in enumerate(slots)]
    limits = {"default": pool(limit=1_000), "small": pool("small", small)}
    found = match(runs, rooms(workers, [], [], served_s=0.0, poll_s=5.0), limits, last)
    assert len({one.op.run_id for one in found}) == len(found) <= sum(slots)
    for worker in workers:
        assert sum(one.op.worker == worker.worker for one in found) <= worker.slots
    claimed = {one.op.run_id for one in found}
    assert sum(one.pool == "small" and one.run_id in claimed for one in runs) <= small
    got = Counter(one.namespace for one in found)
    left = {one.namespace for one in runs if one.run_id not in claimed and one.pool == "default"}
    for name in left:
        assert all(got[other] - got[name] <= 1 for other in got)
    if len(found) < sum(slots):
        assert not left, "no room stays empty while something fits"


def test_pools_with_room_are_read_of_the_namespaces_that_somebody_serves() -> None:
    pools = {"default": pool(), "gpu": pool("gpu"), "full": pool("full", 1, 1)}
    both = [contact("a", pools=frozenset({"gpu", "full"})), contact("b", namespaces=frozenset({"x"}))]
    assert served(both, pools) == {"gpu": None, "default": frozenset({"x"})}
    two = [contact("a", namespaces=frozenset({"x"})), contact("b", namespaces=frozenset({"y"}))]
    assert served(two, {"default": pool()}) == {"default": frozenset({"x", "y"})}
    assert served([], pools) == {}
