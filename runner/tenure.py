"""One time of owning the checkpoint, and all that the owner derives during it: made anew at each takeover."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from runner.aims import Aims
from runner.aside import Aside
from runner.checkpoint.waiting import Walk
from runner.contacts import AttemptKey, Contacts, ServedTime
from runner.deadlines import Watch
from runner.retention import Sweep
from runner.trusted_time import Reckoning


class Overtaken(Exception):
    """Another owner's command came between: this one's changed nothing, and it drives no more."""


@dataclass(slots=True, eq=False)
class Tenure:
    """What is known between an acquisition and its end.

    Attributes:
        epoch: what the acquisition committed.
        revision: of the last command of this owner; the next one expects it.
        now_ms: the checkpoint's now after that command.
        served: the owner's served time, from which silence and waiting are counted.
        aims: next planned instant of each enabled schedule, as far as known yet.
        aside: own operations that cannot be applied.
        walk: where the next look at what is claimable goes on.
        last_claims: by namespace, how many claims there had been when it got its last one.
        sweep: where the look at what is past its retention goes on.
        forget_at_s: served time at which old operation keys are next dropped.
        winding_down: this voter is stopping: nothing more is begun, what runs is observed.
        waited_for: attempts that were open in the newest view and may still end; None before the first.
        moves: leadership is to go to another voter: the workers fell silent, perhaps only to this one.
        ended: nothing more is proposed under this epoch.
    """

    epoch: int
    revision: int
    now_ms: int
    served: ServedTime
    contacts: Contacts = field(default_factory=Contacts)
    watches: dict[AttemptKey, Watch] = field(default_factory=dict)
    aims: Aims = field(default_factory=Aims)
    reckoning: Reckoning | None = None
    aside: Aside = field(default_factory=Aside)
    walk: Walk = field(default_factory=Walk)
    last_claims: dict[str, int] = field(default_factory=dict)
    sweep: Sweep = field(default_factory=Sweep)
    forget_at_s: float = 60.0
    winding_down: bool = False
    waited_for: int | None = None
    moves: bool = False
    ended: bool = False

    @property
    def retention_after(self) -> str | None:
        """After which schedule this turn looks for what is past its retention; None for no look.

        While the clocks are not believed, nothing is old enough to be forgotten.
        """
        believed = self.reckoning is not None and not self.reckoning.stepped
        return self.sweep.wanted(self.served.served_s) if believed and not self.winding_down else None

    def claimed(self, namespaces: Iterable[str]) -> None:
        """Note whose turns claims were, in order."""
        for namespace in namespaces:
            self.last_claims[namespace] = max(self.last_claims.values(), default=0) + 1

    def end(self) -> None:
        """Stop proposing under this epoch; polls held back are woken to find that out."""
        self.ended = True
        self.contacts.ring_all()
