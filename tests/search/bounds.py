"""What one walk may contain."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bounds:
    """The size of a walk.

    Attributes:
        runs: planned instants; with `batch` all fall due in one look at the clock.
        attempts: launches of one run that are followed.
        allowed: launches in all when failures are confirmed (the schedule's retry.attempts).
        webhook: on_unknown = retry, with a delivery deadline.
        workers: worker names, one live process each at the start.
        lives: process lives in all.
        capacity: of the pool.
        remote: the engine may lose a request or its answer, and a later life can ask it about its work; else it accepts
            or refuses at once, and nobody but the life that launched the work sees how it ends.
        expiry: a worker may give up waiting for its permit, or get it too late.
        ends: what engines may say of the work: S it succeeded, F it failed, R refused.
        late_words: a message may arrive after later ones of the same attempt.
        late_polls: a poll may arrive after later messages of the same life.
        overlap: what becomes of an instant while an earlier run holds the slot.
        concurrent: for overlap `allow`: how many runs may be alive at once.
        budget: how often each fault or human act may happen; see `state.BUDGETS`.
    """

    name: str
    runs: int = 1
    attempts: int = 2
    allowed: int = 2
    webhook: bool = False
    workers: int = 1
    lives: int = 2
    capacity: int = 2
    batch: bool = False
    remote: bool = False
    expiry: bool = False
    ends: str = "SFR"
    late_words: bool = True
    late_polls: bool = False
    overlap: str = "skip"
    concurrent: int = 1
    budget: dict[str, int] = field(default_factory=dict)
