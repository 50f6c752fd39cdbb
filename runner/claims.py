"""Which worker gets which run: the matching of what may be claimed with who has room. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runner.checkpoint.ops import ClaimOp
from runner.checkpoint.records import Attempt, Pool, Run
from runner.contacts import Contact

# A worker that has not polled for two polls' time gets no new claims: they would only wait for their fence.
FRESH_POLLS = 2.0


@dataclass(frozen=True, slots=True)
class Room:
    """A worker that would take `free` more attempts."""

    contact: Contact
    free: int


@dataclass(frozen=True, slots=True)
class Claimable:
    """A run that may be claimed now, with the number that its next attempt gets."""

    run: Run
    attempt: int


def rooms(
    contacts: Iterable[Contact],
    attempts: Sequence[Attempt],
    retired: Collection[tuple[str, str]],
    *,
    served_s: float,
    poll_s: float,
) -> list[Room]:
    """Return who has room, most first.

    A poll's `slots` knows nothing of what was claimed after it was sent: open attempts of the same incarnation that it
    does not list are subtracted.
    """
    unlisted: dict[tuple[str, str], int] = {}
    kept = list(contacts)
    held = {(contact.worker, contact.incarnation): contact.held for contact in kept}
    for attempt in attempts:
        owner = (attempt.worker, attempt.incarnation)
        if owner in held and (attempt.run_id, attempt.n) not in held[owner]:
            unlisted[owner] = unlisted.get(owner, 0) + 1
    found = []
    for contact in kept:
        name = (contact.worker, contact.incarnation)
        free = contact.slots - unlisted.get(name, 0)
        if free > 0 and name not in retired and served_s - contact.served_s <= FRESH_POLLS * poll_s:
            found.append(Room(contact, free))
    return sorted(found, key=lambda room: (-room.free, room.contact.worker))


def match(claimable: Sequence[Claimable], room: Sequence[Room], pools: Mapping[str, Pool]) -> list[ClaimOp]:
    """Give each run, in the order handed in, to the fitting worker with most room left.

    The checkpoint decides each claim again; what is spared here is only work that it would refuse.
    """
    free = {entry.contact.worker: entry.free for entry in room}
    capacity = {name: pool.limit - pool.held for name, pool in pools.items()}
    found: list[ClaimOp] = []
    for candidate in claimable:
        pool = candidate.run.pool
        fitting = [
            entry.contact for entry in room if free[entry.contact.worker] > 0 and _fits(entry.contact, candidate.run)
        ]
        if not fitting or capacity.get(pool, 0) <= 0:
            continue
        contact = max(fitting, key=lambda one: free[one.worker])
        free[contact.worker] -= 1
        capacity[pool] -= 1
        found.append(_claim(candidate, contact))
    return found


def _fits(contact: Contact, run: Run) -> bool:
    serves = contact.pools is None or run.pool in contact.pools
    return serves and (contact.namespaces is None or run.namespace in contact.namespaces)


def _claim(candidate: Claimable, contact: Contact) -> ClaimOp:
    pools = {candidate.run.pool} if contact.pools is None else contact.pools
    return ClaimOp(
        run_id=candidate.run.run_id,
        attempt=candidate.attempt,
        worker=contact.worker,
        incarnation=contact.incarnation,
        ledger=contact.ledger,
        authorities=tuple(sorted(pools)),
        namespaces=None if contact.namespaces is None else tuple(sorted(contact.namespaces)),
    )
