"""What the owner knows of its workers from their polls: in memory only, empty at each takeover.

Silence is measured on the owner's served time (`ServedTime`), which stands still while the owner could not have heard
or recorded anything: a stalled or cut-off owner never takes its own deafness for a worker's death.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from worker.protocol import MAX_ITEMS, Held, Poll

AttemptKey = tuple[str, int]  # (run_id, n)
News = tuple[str, str, int]  # what an answer lists: ("claim" or "stop", run_id, n); the stop of a claim is news again


class IncarnationRefused(Exception):
    """Another incarnation of this worker name stands; this one gets no claims. The text says which and why."""


@dataclass(frozen=True, slots=True)
class WorkerContact:
    """A worker as `status` lists it; `last_contact_s` is how long ago it polled, in seconds."""

    name: str
    incarnation: str
    last_contact_s: float


@dataclass(frozen=True, slots=True)
class Contact:
    """The newest poll of one worker.

    Attributes:
        pools: those of its credential that it serves; None for all.
        namespaces: the tenants that it is bound to; None for all.
        held: its ledger's rows by attempt.
        complete: whether `held` lists all of them (a full list may have been cut).
        epoch: the owner epoch of the last reply this incarnation had got.
        served_s: the owner's served time at the poll.
        mono_s: the owner's monotonic clock at the poll.
    """

    worker: str
    pools: frozenset[str] | None
    namespaces: frozenset[str] | None
    incarnation: str
    ledger: str
    life: int
    number: int
    epoch: int
    slots: int
    held: Mapping[AttemptKey, Held]
    complete: bool
    served_s: float
    mono_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """The last time a permit was asked for, and with which message number of which incarnation."""

    incarnation: str
    number: int
    served_s: float


@dataclass(slots=True)
class ServedTime:
    """Seconds during which the owner's loop turned and could commit, since the takeover.

    A gap between two turns counts for at most `most_s`: whatever it was, nothing was heard in the rest of it.
    """

    most_s: float
    served_s: float = 0.0
    _last_mono_s: float | None = None

    def turned(self, mono_s: float, *, could_commit: bool) -> None:
        """Note the end of a turn."""
        if could_commit and self._last_mono_s is not None:
            self.served_s += min(max(mono_s - self._last_mono_s, 0.0), self.most_s)
        self._last_mono_s = mono_s


@dataclass(slots=True)
class Bell:
    """Wakes the one poll of a worker that is being held back.

    Attributes:
        changed: something of this worker's may have changed: look again.
        due: the poll must be answered now, whatever it says: what the worker said in it is out of date.
    """

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    due: bool = False

    def ring(self, *, answer: bool) -> None:
        """Wake the poll; it answers at once if told to, else only if it has news."""
        self.due = self.due or answer
        self.changed.set()


class Contacts:
    """All workers of one tenure."""

    def __init__(self) -> None:
        self._contacts: dict[str, Contact] = {}
        self._bells: dict[str, Bell] = {}
        self._told: dict[str, frozenset[News]] = {}
        self.asks: dict[AttemptKey, Ask] = {}

    def __iter__(self) -> Iterator[Contact]:
        """Yield every contact, by worker name."""
        return iter(sorted(self._contacts.values(), key=lambda contact: contact.worker))

    def get(self, worker: str) -> Contact | None:
        """Return the contact of a worker, if it polled in this tenure."""
        return self._contacts.get(worker)

    def hear(
        self,
        worker: str,
        pools: frozenset[str] | None,
        namespaces: frozenset[str] | None,
        poll: Poll,
        *,
        served_s: float,
        mono_s: float,
        contact_s: float,
    ) -> Contact | None:
        """Take in a poll; returns the contact, or None for a poll older than one heard before.

        Args:
            contact_s: for so long, in served time, a worker that has polled counts as alive.

        Raises:
            IncarnationRefused: a later life of the same ledger has polled, or another ledger's is still in contact.
        """
        known = self._contacts.get(worker)
        if known is not None and known.incarnation != poll.incarnation:
            _refuse_unless_newer(known, poll, silent_s=served_s - known.served_s, contact_s=contact_s)
            self._told.pop(worker, None)
            self.ring(worker, answer=True)
        elif known is not None and poll.number <= known.number:
            return None
        held = {(row.run_id, row.attempt): row for row in poll.held}
        contact = Contact(
            worker=worker,
            pools=_served(pools, poll),
            namespaces=namespaces,
            incarnation=poll.incarnation,
            ledger=poll.ledger,
            life=poll.life,
            number=poll.number,
            epoch=poll.epoch,
            slots=poll.slots,
            held=held,
            complete=len(poll.held) < MAX_ITEMS,
            served_s=served_s,
            mono_s=mono_s,
        )
        self._contacts[worker] = contact
        return contact

    def hold(self, worker: str) -> Bell:
        """Return a fresh bell for the poll that is now held back; an earlier poll of this worker is answered."""
        self.ring(worker, answer=True)
        bell = self._bells[worker] = Bell()
        return bell

    def release(self, worker: str, bell: Bell) -> None:
        """Forget the bell of a poll that was answered."""
        if self._bells.get(worker) is bell:
            del self._bells[worker]

    def ring(self, worker: str, *, answer: bool = False) -> None:
        """Wake the poll of one worker."""
        bell = self._bells.get(worker)
        if bell is not None:
            bell.ring(answer=answer)

    def ring_all(self) -> None:
        """Wake every poll."""
        for bell in self._bells.values():
            bell.ring(answer=False)

    def told(self, worker: str) -> frozenset[News]:
        """Return which claims and stops the last answer to this worker listed."""
        return self._told.get(worker, frozenset())

    def tell(self, contact: Contact, listed: Iterable[News]) -> None:
        """Note what an answer to a worker lists, unless a newer incarnation polled meanwhile."""
        known = self._contacts.get(contact.worker)
        if known is not None and known.incarnation == contact.incarnation:
            self._told[contact.worker] = frozenset(listed)

    def asked(self, key: AttemptKey, ask: Ask) -> None:
        """Note that a permit was asked for."""
        self.asks[key] = ask

    def forget_asks(self, open_keys: Iterable[AttemptKey]) -> None:
        """Keep the asks of open attempts only."""
        keep = set(open_keys)
        self.asks = {key: ask for key, ask in self.asks.items() if key in keep}


def _served(pools: frozenset[str] | None, poll: Poll) -> frozenset[str] | None:
    """Return the pools of a credential that this process serves: it may narrow them, never add any."""
    if poll.pools is None:
        return pools
    return frozenset(poll.pools) if pools is None else pools.intersection(poll.pools)


def _refuse_unless_newer(known: Contact, poll: Poll, *, silent_s: float, contact_s: float) -> None:
    """Judge a poll of another incarnation than the one heard last.

    Lives of one ledger are ordered: only one process at a time has it open, so the higher one is the present one,
    however late a poll of an older one arrives. Two ledgers under one name are not ordered: a mistake of whoever set
    them up, or a lost disk. Then the one that is in contact stands until it has been silent for as long as it takes
    to lose it (DESIGN 3.2: a second live incarnation of a name is refused).
    """
    if poll.ledger == known.ledger and poll.life != known.life:
        if poll.life < known.life:
            raise IncarnationRefused(
                f"incarnation {poll.incarnation} of {known.worker} was followed by a later life of the same ledger"
            )
    elif silent_s < contact_s:
        raise IncarnationRefused(
            f"another process under the name {known.worker} is in contact, with ledger {known.ledger}"
            f" and not {poll.ledger}"
        )
