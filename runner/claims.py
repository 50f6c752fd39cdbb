"""Which worker gets which run: the matching of what may be claimed with who has room. Pure."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runner.checkpoint.ops import ClaimOp
from runner.checkpoint.records import Attempt, Pool
from runner.checkpoint.waiting import Claimable, Served
from runner.contacts import Contact

# A worker that has not polled for two polls' time gets no new claims: they would only wait for their fence.
FRESH_POLLS = 2.0


@dataclass(frozen=True, slots=True)
class Room:
    """A worker that would take `free` more attempts."""

    contact: Contact
    free: int


@dataclass(frozen=True, slots=True)
class Match:
    """A claim to propose, and whose turn it was."""

    namespace: str
    op: ClaimOp


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
    does not list are subtracted. Those whose stop is unresolved are not: a worker that does not list such a one has
    given it up, and it waits for a human, perhaps for ever.
    """
    unlisted: dict[tuple[str, str], int] = {}
    kept = list(contacts)
    held = {(contact.worker, contact.incarnation): contact.held for contact in kept}
    for attempt in attempts:
        owner = (attempt.worker, attempt.incarnation)
        is_new = owner in held and (attempt.run_id, attempt.n) not in held[owner]
        if is_new and not attempt.unresolved:
            unlisted[owner] = unlisted.get(owner, 0) + 1
    found = []
    for contact in kept:
        name = (contact.worker, contact.incarnation)
        free = contact.slots - unlisted.get(name, 0)
        if free > 0 and name not in retired and served_s - contact.served_s <= FRESH_POLLS * poll_s:
            found.append(Room(contact, free))
    return sorted(found, key=lambda room: (-room.free, room.contact.worker))


def served(contacts: Iterable[Contact], pools: Mapping[str, Pool]) -> Served:
    """Return the pools with room of which these workers take work, each with the namespaces that they take it of."""
    found: dict[str, frozenset[str] | None] = {}
    roomy = {name for name, pool in pools.items() if pool.held < pool.limit}
    for contact in contacts:
        for pool in roomy if contact.pools is None else roomy & contact.pools:
            before = found.get(pool, frozenset())
            found[pool] = None if before is None or contact.namespaces is None else before | contact.namespaces
    return found


def match(
    claimable: Iterable[Claimable],
    room: Sequence[Room],
    pools: Mapping[str, Pool],
    last_claims: Mapping[str, int],
) -> list[Match]:
    """Give runs to the fitting workers with most room left, one namespace after the other.

    A namespace's runs are offered oldest first. The namespaces take turns, so that one with very many runs holds up
    nobody else's; the one whose last claim is longest ago begins, the one with the oldest run among equals.
    The checkpoint decides each claim again; what is spared here is only work that it would refuse.

    Args:
        claimable: what may be claimed now, in any order.
        room: who takes more.
        pools: limits, and what is held of them.
        last_claims: by namespace, a number that is higher the later its last claim was; none for never.
    """
    free = {entry.contact.worker: entry.free for entry in room}
    capacity = {name: pool.limit - pool.held for name, pool in pools.items()}
    found: list[Match] = []
    line = _line(claimable, last_claims)
    while line and any(free.values()):
        candidates = line.popleft()
        while candidates:
            candidate = candidates.popleft()
            fitting = [one.contact for one in room if free[one.contact.worker] > 0 and _fits(one.contact, candidate)]
            if not fitting or capacity.get(candidate.pool, 0) <= 0:
                continue  # nor will it fit later in this turn: room only shrinks
            contact = max(fitting, key=lambda one: free[one.worker])
            free[contact.worker] -= 1
            capacity[candidate.pool] -= 1
            found.append(Match(candidate.namespace, _claim(candidate, contact)))
            line.append(candidates)
            break
    return found


def _line(claimable: Iterable[Claimable], last_claims: Mapping[str, int]) -> deque[deque[Claimable]]:
    """Return the runs of each namespace, oldest first, in the order in which the namespaces take turns."""
    waiting: dict[str, deque[Claimable]] = {}
    for candidate in sorted(claimable, key=lambda one: one.run_id):
        waiting.setdefault(candidate.namespace, deque()).append(candidate)
    return deque(sorted(waiting.values(), key=lambda runs: last_claims.get(runs[0].namespace, 0)))


def _fits(contact: Contact, candidate: Claimable) -> bool:
    serves = contact.pools is None or candidate.pool in contact.pools
    return serves and (contact.namespaces is None or candidate.namespace in contact.namespaces)


def _claim(candidate: Claimable, contact: Contact) -> ClaimOp:
    pools = {candidate.pool} if contact.pools is None else contact.pools
    return ClaimOp(
        run_id=candidate.run_id,
        attempt=candidate.attempt,
        worker=contact.worker,
        incarnation=contact.incarnation,
        ledger=contact.ledger,
        authorities=tuple(sorted(pools)),
        namespaces=None if contact.namespaces is None else tuple(sorted(contact.namespaces)),
    )
