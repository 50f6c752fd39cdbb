"""One time of owning the checkpoint, and all that the owner derives during it: made anew at each takeover."""

from dataclasses import dataclass, field

from runner.aims import Aims
from runner.contacts import AttemptKey, Contacts, ServedTime
from runner.deadlines import Watch
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
        forget_at_s: served time at which old operation keys are next dropped.
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
    forget_at_s: float = 60.0
    ended: bool = False

    def end(self) -> None:
        """Stop proposing under this epoch; polls held back are woken to find that out."""
        self.ended = True
        self.contacts.ring_all()
