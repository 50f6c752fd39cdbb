from typing import Any

import pytest

from runner.contacts import Ask, Contact, Contacts, IncarnationRefused, ServedTime
from worker.protocol import MAX_ITEMS, Held, Poll


def poll(number: int = 1, incarnation: str = "i1", **changes: Any) -> Poll:
    values: dict[str, Any] = {"version": 1, "ledger": "l1", "life": 1, "epoch": 3, "slots": 2, "held": []}
    return Poll(**(values | {"incarnation": incarnation, "number": number} | changes))


def hear(contacts: Contacts, message: Poll, worker: str = "w1", served_s: float = 1.0) -> Contact:
    heard = contacts.hear(worker, None, None, message, served_s=served_s, mono_s=served_s, contact_s=30.0)
    assert heard is not None
    return heard


def is_old(contacts: Contacts, message: Poll) -> bool:
    return contacts.hear("w1", None, None, message, served_s=1.0, mono_s=1.0, contact_s=30.0) is None


def test_an_older_or_repeated_poll_changes_nothing() -> None:
    contacts = Contacts()
    hear(contacts, poll(5, slots=3))
    assert is_old(contacts, poll(4, slots=9))
    assert is_old(contacts, poll(5, slots=9))
    assert [one.slots for one in contacts] == [3]
    assert hear(contacts, poll(6, slots=9)).slots == 9


def test_a_later_life_of_one_ledger_takes_the_name_and_no_earlier_one_gets_it_back() -> None:
    contacts = Contacts()
    hear(contacts, poll(50, "i1", life=1))
    assert hear(contacts, poll(1, "i2", life=2)).incarnation == "i2"
    with pytest.raises(IncarnationRefused, match="i1 of w1"):
        hear(contacts, poll(51, "i1", life=1), served_s=1_000.0)
    assert [one.incarnation for one in contacts] == ["i2"]
    assert hear(contacts, poll(1, "i1"), worker="w2").incarnation == "i1"


def test_a_late_poll_of_a_dead_life_does_not_lock_the_living_one_out() -> None:
    """At a takeover nothing is known: whichever poll comes first, the present life gets its name."""
    contacts = Contacts()
    hear(contacts, poll(50, "i1", life=1))
    hear(contacts, poll(1, "i2", life=2))
    with pytest.raises(IncarnationRefused):
        hear(contacts, poll(51, "i1", life=1))
    assert hear(contacts, poll(2, "i2", life=2)).incarnation == "i2"


def test_of_two_ledgers_under_one_name_the_one_in_contact_stands_until_it_is_silent() -> None:
    contacts = Contacts()
    hear(contacts, poll(1, "i1", ledger="l1"))
    with pytest.raises(IncarnationRefused, match="ledger l1 and not l2"):
        hear(contacts, poll(1, "i2", ledger="l2", life=9), served_s=30.0)
    hear(contacts, poll(2, "i1", ledger="l1"), served_s=25.0)
    with pytest.raises(IncarnationRefused):
        hear(contacts, poll(2, "i2", ledger="l2", life=9), served_s=54.0)
    assert hear(contacts, poll(3, "i2", ledger="l2", life=9), served_s=55.0).ledger == "l2"
    with pytest.raises(IncarnationRefused):
        hear(contacts, poll(3, "i1", ledger="l1"), served_s=56.0)


def test_a_copied_ledger_is_two_hosts_under_one_name_too() -> None:
    contacts = Contacts()
    hear(contacts, poll(1, "i1", life=4))
    with pytest.raises(IncarnationRefused):
        hear(contacts, poll(1, "i2", life=4))


def test_what_the_older_incarnation_was_told_is_not_known_to_the_newer() -> None:
    contacts = Contacts()
    old = hear(contacts, poll(1, "i1"))
    contacts.tell(old, [("r1", 1)])
    assert contacts.told("w1") == {("r1", 1)}
    hear(contacts, poll(1, "i2", life=2))
    contacts.tell(old, [("r2", 1)])
    assert contacts.told("w1") == frozenset()


def test_a_full_list_of_held_rows_is_not_taken_as_complete() -> None:
    rows = [Held(f"r{n}", 1, "accepted", observable=True) for n in range(MAX_ITEMS)]
    contacts = Contacts()
    assert not hear(contacts, poll(1, held=rows)).complete
    assert hear(contacts, poll(2, held=rows[:-1])).complete


async def test_a_newer_poll_ends_the_one_that_is_held_back() -> None:
    contacts = Contacts()
    first = contacts.hold("w1")
    second = contacts.hold("w1")
    assert (first.due, second.due) == (True, False)
    contacts.release("w1", first)
    contacts.ring("w1", answer=True)
    assert (first.due, second.due) == (True, True)
    contacts.release("w1", second)
    contacts.ring("w1")


async def test_ringing_all_wakes_every_poll_without_ending_it() -> None:
    contacts = Contacts()
    bells = [contacts.hold(name) for name in ("w1", "w2")]
    contacts.ring_all()
    assert [(bell.changed.is_set(), bell.due) for bell in bells] == [(True, False)] * 2


def test_asks_are_kept_for_open_attempts_only() -> None:
    contacts = Contacts()
    contacts.asked(("r1", 1), Ask("i1", 1, 0.0))
    contacts.asked(("r2", 1), Ask("i1", 2, 0.0))
    contacts.forget_asks([("r2", 1)])
    assert list(contacts.asks) == [("r2", 1)]


def test_served_time_counts_turns_that_could_commit_and_no_stall() -> None:
    served = ServedTime(most_s=2.0)
    for mono_s, could_commit in ((100.0, True), (101.0, True), (102.5, False), (103.0, True), (163.0, True)):
        served.turned(mono_s, could_commit=could_commit)
    assert served.served_s == pytest.approx(1.0 + 0.5 + 2.0)


@pytest.mark.parametrize(
    ("credential", "says", "serves"),
    [
        (None, None, None),
        (None, ["gpu"], {"gpu"}),
        ({"default", "gpu"}, None, {"default", "gpu"}),
        ({"default", "gpu"}, ["gpu", "tape"], {"gpu"}),
        ({"default"}, ["gpu"], set()),
    ],
)
def test_a_process_may_narrow_the_pools_of_its_credential_and_never_adds_one(
    credential: set[str] | None, says: list[str] | None, serves: set[str] | None
) -> None:
    pools = None if credential is None else frozenset(credential)
    heard = Contacts().hear("w1", pools, None, poll(pools=says), served_s=1.0, mono_s=1.0, contact_s=30.0)
    assert heard is not None
    assert heard.pools == serves
