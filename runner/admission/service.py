"""The admission handlers: plain `async (principal, message) -> reply`, the same over HTTP and in the simulator."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.bearer import Principal
from cluster.outcome import NotApplied, Why
from cluster.ports import Clock
from runner.admission.lineage import Spoken, demand_lineage
from runner.admission.listing import Listing, hold_s, listing_of
from runner.admission.words import answers, fence_op, permit_op, report_op
from runner.checkpoint import queries
from runner.contacts import Ask, Bell, Contact
from runner.ports import Node
from runner.service import Runner
from runner.settings import Timing
from runner.tenure import Tenure
from worker.protocol import MAX_ITEMS, Answers, Fences, NotOwner, Permits, Poll, PollReply, Reports

MAX_HELD_POLLS: Final = 1_000
"""Polls held back at once; one more is answered at once, so that no worker is deaf to its stops."""
POLLS_IN_CONTACT: Final = 3
MAX_WAITING_OF_ONE: Final = 2 * MAX_ITEMS
"""Items of one worker that wait for the owner at once: one worker alone never fills the queue of all."""
MAX_ASKS: Final = 20_000
"""Permit requests remembered until the attempts that they name turn out not to be open."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A poll that is being held back: by whom, of which tenure and generation, until when at the latest."""

    contact: Contact
    tenure: Tenure
    bell: Bell
    begun_mono_s: float
    wait_s: float
    generation: int


class Admission:
    """What workers may ask of this voter; it answers with `NotOwner` unless it drives."""

    def __init__(self, *, runner: Runner, node: Node, clock: Clock, urls: Sequence[str], timing: Timing) -> None:
        """Wire it.

        Args:
            runner: the loop that decides.
            node: the same voter's checkpoint, for what a poll lists.
            clock: this voter's clocks.
            urls: admission URLs of all voters, for workers that ask the wrong one.
            timing: how long polls are held back.
        """
        self._runner = runner
        self._node = node
        self._clock = clock
        self._urls = tuple(urls)
        self._timing = timing
        # A poll is the contact: held for longer, a living worker would look like a silent one.
        self._longest_s = min(timing.poll_s, timing.contact_s / POLLS_IN_CONTACT)
        self._held_polls = 0
        self._waiting: dict[str, int] = {}

    async def poll(self, principal: Principal, message: Poll) -> PollReply | NotOwner:
        """Take in a worker's contact and tell it what is open, holding the answer back while that is no news.

        Blocks: at most `wait_s` of the message and `poll_s` of the timing, whichever is shorter. Idempotent.

        Raises:
            IncarnationRefused: another incarnation of this worker stands.
            LineageRefused: its ledger is of another cluster or a later generation; so do the other handlers.
        """
        tenure = self._runner.tenure
        if tenure is None:
            return self._not_owner()
        generation = await self._generation_for(message)
        worker, incarnation = principal.name, message.incarnation
        mono_s = self._clock.mono_s()
        contact = tenure.contacts.hear(
            worker,
            principal.pools,
            principal.namespaces,
            message,
            served_s=tenure.served.served_s,
            mono_s=mono_s,
            contact_s=self._timing.contact_s,
        )
        if contact is None:  # an older poll, overtaken on its way: it is told, but tells nothing
            listing = await self._listing(worker, incarnation)
            return self._reply(tenure, listing)
        self._runner.look()
        wait_s = min(message.wait_s, self._longest_s) if self._held_polls < MAX_HELD_POLLS else 0.0
        bell = tenure.contacts.hold(worker)
        self._held_polls += 1
        try:
            listing = await self._await_news(_Held(contact, tenure, bell, mono_s, wait_s, generation))
        finally:
            self._held_polls -= 1
            tenure.contacts.release(worker, bell)
        tenure.contacts.tell(contact, listing.keys)
        return self._reply(tenure, listing)

    async def permits(self, principal: Principal, message: Permits) -> Answers | NotOwner:
        """Decide permit requests; a repeated one is told of the same permit while it still counts.

        Blocks and raises as `Runner.submit_all`. Idempotent per reservation.
        """
        tenure = self._runner.tenure
        if tenure is None:
            return self._not_owner()
        await self._generation_for(message)
        with self._room(principal, len(message.items)):
            if len(tenure.contacts.asks) + len(message.items) > MAX_ASKS:
                raise NotApplied(Why.QUEUE_FULL, "the owner remembers too many permit requests")
            for item in message.items:
                key = (item.binding.run_id, item.binding.attempt)
                ask = Ask(item.binding.incarnation, message.number, tenure.served.served_s)
                if item.binding.worker == principal.name:
                    tenure.contacts.asked(key, ask)
            results = await self._runner.submit_all([permit_op(principal, item) for item in message.items])
        return answers(results, refused="denied")

    async def fences(self, principal: Principal, message: Fences) -> Answers | NotOwner:
        """Decide fences that a worker asks for. Blocks and raises as `Runner.submit_all`. Idempotent."""
        if not self._runner.drives:
            return self._not_owner()
        await self._generation_for(message)
        with self._room(principal, len(message.items)):
            results = await self._runner.submit_all([fence_op(principal.name, item) for item in message.items])
        return answers(results, refused="denied")

    async def reports(self, principal: Principal, message: Reports) -> Answers | NotOwner:
        """Record what a worker says. Blocks and raises as `Runner.submit_all`. Idempotent.

        A report that changed a row ends the worker's held poll: the room that it offered is out of date.
        """
        tenure = self._runner.tenure
        if tenure is None:
            return self._not_owner()
        await self._generation_for(message)
        with self._room(principal, len(message.items)):
            results = await self._runner.submit_all([report_op(principal.name, item) for item in message.items])
        if any(result.changed for result in results):
            tenure.contacts.ring(principal.name, answer=True)
        return answers(results, refused="evidence")

    @contextlib.contextmanager
    def _room(self, principal: Principal, count: int) -> Iterator[None]:
        """Count the items of one worker while they wait for the owner.

        Raises:
            NotApplied: it has too many waiting.
        """
        waiting = self._waiting.get(principal.name, 0) + count
        if waiting > MAX_WAITING_OF_ONE:
            raise NotApplied(Why.QUEUE_FULL, f"worker {principal.name} has too much waiting")
        self._waiting[principal.name] = waiting
        try:
            yield
        finally:
            self._waiting[principal.name] -= count
            if not self._waiting[principal.name]:
                del self._waiting[principal.name]

    async def _await_news(self, held: _Held) -> Listing:
        """Return the listing once it is news to the worker, its time is up, or its poll is out of date."""
        contact, tenure, bell = held.contact, held.tenure, held.bell
        while True:
            bell.changed.clear()
            listing = await self._listing(contact.worker, contact.incarnation)
            told = tenure.contacts.told(contact.worker)
            longest_s = hold_s(listing, contact.held, told, wait_s=held.wait_s, repeat_s=self._timing.repeat_s)
            left_s = held.begun_mono_s + longest_s - self._clock.mono_s()
            restored = listing.head.generation != held.generation  # the worker must hear of it
            if left_s <= 0 or bell.due or tenure.ended or restored:
                return listing
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await bell.changed.wait()

    async def _generation_for(self, message: Spoken) -> int:
        """Return the generation under which a message is answered.

        Raises:
            LineageRefused: it comes from a ledger of another lineage.
        """
        head = await self._node.read(queries.head)
        demand_lineage(head, message)
        return head.generation

    async def _listing(self, worker: str, incarnation: str) -> Listing:
        return await self._node.read(lambda db: listing_of(db, worker, incarnation))

    def _reply(self, tenure: Tenure, listing: Listing) -> PollReply | NotOwner:
        """Answer as the owner only if the tenure still lasts: what was read may be another owner's by now."""
        if tenure.ended:
            return self._not_owner()
        return listing.reply(self._runner.name, tenure.epoch)

    def _not_owner(self) -> NotOwner:
        return NotOwner(owner=self._runner.owner(), urls=list(self._urls))
