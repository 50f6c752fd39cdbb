"""What a poll is told: every open claim of an incarnation and every stop of its worker, and whether that is news."""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from runner import ids
from runner.checkpoint import queries
from runner.checkpoint.admitting import binding_of
from runner.checkpoint.records import Attempt, Head, Run
from runner.contacts import AttemptKey, News
from worker.protocol import MAX_ITEMS, VERSION, Claim, PollReply, Stop


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to a poll as the checkpoint stands."""

    head: Head
    claims: tuple[Claim, ...]
    stops: tuple[Stop, ...]
    retired: bool

    @property
    def keys(self) -> frozenset[News]:
        """Return every claim and every stop that the answer lists."""
        claimed = (("claim", claim.binding.run_id, claim.binding.attempt) for claim in self.claims)
        return frozenset((*claimed, *(("stop", stop.run_id, stop.attempt) for stop in self.stops)))

    def reply(self, owner: str, epoch: int) -> PollReply:
        """Return the words for the worker."""
        return PollReply(
            version=VERSION,
            owner=owner,
            epoch=epoch,
            cluster_id=self.head.cluster_id,
            generation=self.head.generation,
            claims=list(self.claims),
            stops=list(self.stops),
            retired=self.retired,
        )


def hold_s(
    listing: Listing, held: Collection[AttemptKey], told: Collection[News], *, wait_s: float, repeat_s: float
) -> float:
    """Return how long an answer may be held back: 0 for news, briefly while something waits to be acted on.

    A claim that the worker lists is known to it; a stop cannot be listed, and an answer may have been lost on its way.
    So what was told once is told again, but not in a tight circle.
    """
    pending = listing.keys - {("claim", run_id, n) for run_id, n in held}
    if listing.retired or pending - set(told):
        return 0.0
    return min(wait_s, repeat_s) if pending else wait_s


def listing_of(db: sqlite3.Connection, worker: str, incarnation: str) -> Listing:
    """Read what is open for one incarnation of a worker, at most `MAX_ITEMS` of each kind."""
    head = queries.head(db)
    claims = queries.open_claims(db, worker, incarnation)[:MAX_ITEMS]
    stops = queries.stops(db, worker)[:MAX_ITEMS]
    return Listing(
        head=head,
        claims=tuple(_claim(db, head, run, attempt) for run, attempt in claims),
        stops=tuple(Stop(attempt.run_id, attempt.n) for attempt in stops),
        retired=queries.is_retired(db, worker, incarnation),
    )


def _claim(db: sqlite3.Connection, head: Head, run: Run, attempt: Attempt) -> Claim:
    at_ms = run.scheduled_for_ms if run.scheduled_for_ms is not None else run.triggered_ms
    assert at_ms is not None, f"run {run.run_id} is neither planned nor triggered"
    return Claim(
        binding=binding_of(head, run, attempt),
        schedule=run.schedule,
        scheduled_for=ids.instant_text(at_ms),
        idempotency_key=ids.idempotency_key(run.schedule_id, run.occurrence),
        target=queries.target(db, run.digest),
        not_before_ms=run.not_before_ms,
    )
