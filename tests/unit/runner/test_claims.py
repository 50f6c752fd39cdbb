from collections.abc import Collection, Sequence

from runner.checkpoint.records import Attempt, AttemptState, Run
from runner.claims import Claimable, match, rooms
from runner.contacts import Contact
from tests.unit.runner.rows import attempt, contact, held, pool, run


def free(
    *contacts: Contact,
    attempts: Sequence[Attempt] = (),
    retired: Collection[tuple[str, str]] = (),
    served_s: float = 0.0,
) -> dict[str, int]:
    found = rooms(contacts, attempts, retired, served_s=served_s, poll_s=5.0)
    return {room.contact.worker: room.free for room in found}


def matched(runs: list[Run], contacts: list[Contact], **pools: int) -> list[tuple[str, str]]:
    room = rooms(contacts, [], [], served_s=0.0, poll_s=5.0)
    limits = {name: pool(name, limit) for name, limit in ({"default": 64} | pools).items()}
    found = match([Claimable(one, 1) for one in runs], room, limits)
    return [(op.run_id, op.worker) for op in found]


def test_claims_that_a_poll_could_not_know_of_take_its_slots() -> None:
    mine = [attempt("r1", state=AttemptState.CLAIMED), attempt("r2"), attempt("r3", incarnation="i0")]
    assert free(contact(slots=4, held=held("r2")), attempts=mine) == {"w1": 3}
    assert free(contact(slots=1), attempts=mine) == {}


def test_silent_retired_and_full_workers_have_no_room() -> None:
    assert free(contact(slots=0)) == {}
    assert free(contact(), retired={("w1", "i1")}) == {}
    assert free(contact(served_s=0.0), served_s=10.0) == {"w1": 4}
    assert free(contact(served_s=0.0), served_s=10.1) == {}


def test_the_worker_with_most_room_is_next() -> None:
    runs = [run(f"r{n}") for n in range(4)]
    workers = [contact("a", slots=1), contact("b", slots=2)]
    assert matched(runs, workers) == [("r0", "b"), ("r1", "b"), ("r2", "a")]


def test_a_worker_takes_only_its_own_pools() -> None:
    runs = [run("r1", pool="gpu"), run("r2")]
    workers = [contact("a", pools=frozenset({"default"})), contact("b", pools=frozenset({"gpu"}), slots=9)]
    assert matched(runs, workers, gpu=1) == [("r1", "b"), ("r2", "a")]


def test_a_pool_is_never_overbooked_in_one_command() -> None:
    runs = [run("r1"), run("r2", pool="small"), run("r3", pool="small")]
    assert matched(runs, [contact()], small=1) == [("r1", "w1"), ("r2", "w1")]


def test_a_claim_carries_the_workers_pools_and_the_attempts_number() -> None:
    (room,) = rooms([contact(pools=frozenset({"default", "a"}))], [], [], served_s=0.0, poll_s=5.0)
    (op,) = match([Claimable(run(), 2)], [room], {"default": pool()})
    assert (op.attempt, op.incarnation, op.ledger, op.authorities) == (2, "i1", "l1", ("a", "default"))
    (room,) = rooms([contact(pools=None)], [], [], served_s=0.0, poll_s=5.0)
    (op,) = match([Claimable(run(), 1)], [room], {"default": pool()})
    assert op.authorities == ("default",)
