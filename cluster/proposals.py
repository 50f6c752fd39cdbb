"""A proposal's way from its caller into the log and back: each is answered exactly once, in the order of the log."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from cluster.frames import CONFIGURE, MAX_COMMAND_BYTES, NO_OP, RAISE_BYTES, REGULAR, raise_to
from cluster.log_mirror import Entry
from cluster.outcome import Applied, FailStop, NotApplied, OutcomeUnknown, Why

MAX_PROPOSALS: Final = 1024  # queued and pending together
MAX_PROPOSAL_BYTES: Final = 32 << 20
MAX_BYTES_PER_TICK: Final = 4 << 20  # appended in one tick, and so in one fsync
_NEVER: Final = float("inf")

Outcome = Applied | NotApplied | OutcomeUnknown
Answer = Callable[[Outcome], None]


@dataclass(slots=True)
class Proposal:
    """One entry to be, and who waits for it (several barriers share one no-op).

    Attributes:
        command: as it stands in the log, its kind first.
        answers: called once each.
        expires_mono_s: after this instant whoever waits is answered without it, on the host's monotonic clock.
    """

    command: bytes
    answers: list[Answer] = field(default_factory=list)
    expires_mono_s: float = _NEVER


class Proposals:
    """All proposals of one voter that are not answered yet.

    Attributes:
        held: what is queued waits until more of what was appended is applied.
    """

    def __init__(self) -> None:
        self.held = False
        self._queued: deque[Proposal] = deque()
        self._queued_barrier: Proposal | None = None
        self._pending: dict[int, tuple[int, Proposal]] = {}
        self._settled: list[tuple[Proposal, Callable[[], Outcome]]] = []
        self._bytes = 0
        self._earliest_mono_s = _NEVER  # no deadline passes before

    @property
    def queued(self) -> bool:
        """Whether something waits that the next tick may append or refuse."""
        return bool(self._queued) and not self.held

    def offer(self, command: bytes, answer: Answer, expires_mono_s: float = _NEVER, kind: bytes = REGULAR) -> None:
        """Queue a command for the next tick.

        Args:
            command: in the words of the state machine, or of whoever knows its kind.
            answer: called once, unless this raises.
            expires_mono_s: when it is to be answered at the latest, whatever is known then.
            kind: its first byte in the log.

        Raises:
            NotApplied: it is too large, or too much waits already; `answer` is not called then.
        """
        if len(command) > MAX_COMMAND_BYTES:
            raise NotApplied(Why.TOO_LARGE, f"{len(command)} bytes; at most {MAX_COMMAND_BYTES} fit")
        self._refuse_overflow(len(command))
        self._bytes += len(kind) + len(command)
        self._queued.append(Proposal(kind + command, [answer], expires_mono_s))
        self._earliest_mono_s = min(self._earliest_mono_s, expires_mono_s)

    def offer_barrier(self, answer: Answer) -> None:
        """Queue a no-op, or join one that is not appended yet.

        Raises:
            NotApplied: too much waits already; `answer` is not called then.
        """
        if self._queued_barrier is None:
            self._refuse_overflow(0)
            self._bytes += len(NO_OP)
            self._queued_barrier = Proposal(NO_OP)
            self._queued.append(self._queued_barrier)
        self._queued_barrier.answers.append(answer)

    @property
    def configuring(self) -> bool:
        """Whether an entry that names another disk waits to be appended."""
        return any(proposal.command[:1] == CONFIGURE for proposal in self._queued)

    def offer_raise(self, version: int) -> None:
        """Queue an entry that raises the cluster version; nobody waits for it."""
        self._bytes += RAISE_BYTES
        self._queued.append(Proposal(raise_to(version)))

    def expire(self, now_mono_s: float) -> None:
        """Answer whose deadline has passed: certainly not applied if it is still queued, else unknown.

        An appended one stays pending without anybody waiting for it, until its entry or the end of leadership.
        """
        if now_mono_s < self._earliest_mono_s:
            return
        for _, proposal in self._pending.values():
            if proposal.expires_mono_s <= now_mono_s:
                self._settled.append((replace(proposal), lambda: OutcomeUnknown("its deadline passed; it is pending")))
                proposal.answers, proposal.expires_mono_s = [], _NEVER
        waiting, self._queued = self._queued, deque()
        for proposal in waiting:
            if proposal.expires_mono_s <= now_mono_s:
                self._settle(proposal, lambda: NotApplied(Why.EXPIRED))
            else:
                self._queued.append(proposal)
        rest = (*(proposal for _, proposal in self._pending.values()), *self._queued)
        self._earliest_mono_s = min((proposal.expires_mono_s for proposal in rest), default=_NEVER)

    def take(self) -> Iterator[Proposal]:
        """Yield what may be appended in this tick, oldest first; each must be given to `appended` or `failed`."""
        taken = 0
        while self._queued and taken < MAX_BYTES_PER_TICK:
            proposal = self._queued.popleft()
            if proposal is self._queued_barrier:
                self._queued_barrier = None
            taken += len(proposal.command)
            yield proposal

    def appended(self, proposal: Proposal, index: int, term: int) -> None:
        """Note that a proposal is in the log: from now on only its entry or the end of leadership answers it."""
        self._pending[index] = (term, proposal)

    def failed(self, proposal: Proposal, fault: str) -> None:
        """Refuse one proposal that was taken and did not pass its trial."""
        self._settle(proposal, lambda: NotApplied(Why.FAILED_TRIAL, fault))

    def applied(self, entry: Entry, result: object) -> None:
        """Note an applied entry; whoever proposed it here learns of it when the tick is committed.

        Raises:
            FailStop: another term's entry stands where a pending proposal was appended.
        """
        pending = self._pending.pop(entry.index, None)
        if pending is None:
            return
        term, proposal = pending
        if term != entry.term:
            raise FailStop(f"entry {entry.index} has term {entry.term}, a pending proposal has {term}")
        self._settle(proposal, lambda: Applied(entry.index, entry.term, result))

    def leadership_lost(self) -> None:
        """Answer every appended proposal: it may still commit, here or under the next leader, or vanish."""
        for _, proposal in self._pending.values():  # in the order of the log: indices only grow
            self._settle(proposal, lambda: OutcomeUnknown("leadership ended with the command pending"))
        self._pending.clear()

    def refuse(self, why: Why) -> None:
        """Answer every proposal that is not appended: it never will be."""
        self.held = False
        for proposal in self._queued:
            self._settle(proposal, lambda: NotApplied(why))
        self._queued.clear()
        self._queued_barrier = None

    def abandon(self) -> None:
        """Answer everybody "unknown" who was to hear of a tick that was cut short before its commit."""
        for _, proposal in self._pending.values():
            self._settle(proposal, OutcomeUnknown)
        self._pending.clear()
        self._settled = [(proposal, OutcomeUnknown) for proposal, _ in self._settled]

    def settle(self) -> None:
        """Call the answers that are due, in order. An answer may offer again."""
        settled, self._settled = self._settled, []
        for proposal, outcome in settled:
            for answer in proposal.answers:
                answer(outcome())

    def _settle(self, proposal: Proposal, outcome: Callable[[], Outcome]) -> None:
        self._bytes -= len(proposal.command)
        self._settled.append((proposal, outcome))

    def _refuse_overflow(self, size: int) -> None:
        waiting = len(self._queued) + len(self._pending)
        if waiting >= MAX_PROPOSALS or self._bytes + size > MAX_PROPOSAL_BYTES:
            raise NotApplied(Why.QUEUE_FULL, f"{waiting} proposals of {self._bytes} bytes wait already")
