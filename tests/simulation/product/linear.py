"""What clients asked and were told, as operations on objects, for the Wing and Gong checker.

Two kinds of object. An attempt's permit: workers ask for it and for its fence; the owner may fence it at any time
unasked. A run: commands change it, one after the other; cancels, triggers and linearizable reads of it must be
explained by one of its states between their call and their answer.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.linearizability.checker import check
from tests.linearizability.history import Done, NotDone, Operation, Unknown

if TYPE_CHECKING:
    from tests.simulation.product.world import World

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask for the permit under a reservation."""

    reservation: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Ask that there never be one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Somebody was told that the permit, or the fence, exists."""

    what: str


class Permit:
    """The one permit of an attempt, or its fence."""

    initial = None

    def step(self, state: Hashable, call: Ask | Fence | Seen) -> tuple[Hashable, object]:
        match call:
            case Ask(reservation):
                after = state or ("permit", reservation)
                return after, "granted" if after == ("permit", reservation) else "denied"
            case Fence():
                after = state or ("fence", "")
                return after, "fenced" if after == ("fence", "") else "permit_exists"
            case Seen(what):
                return state, state is not None and state[0] == what

    def observes(self, call: object, result: object) -> bool:
        return isinstance(call, Seen) or result in {"denied", "permit_exists"}


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as commands left it: its state, whether a cancel is committed, the newest revision of its attempts."""

    state: str
    cancelled: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Advance:
    """A command changed the run."""

    before: Standing | None
    after: Standing


@dataclass(frozen=True, slots=True)
class Told:
    """Somebody was told something of the run; what is None was not said."""

    state: str | None = None
    cancelled: bool | None = None
    revision: int | None = None


class Life:
    """A run from its making to its end."""

    initial = None

    def step(self, state: Standing | None, call: Advance | Told) -> tuple[Standing | None, object]:
        if isinstance(call, Advance):
            return (call.after, True) if state == call.before else (state, False)
        if state is None:
            return state, False
        fits = call.state in {None, state.state} and call.revision in {None, state.revision}
        return state, fits and call.cancelled in {None, state.cancelled}

    def observes(self, call: object, result: object) -> bool:
        return isinstance(call, Told) or result is False


@dataclass
class Pending:
    """A call that is under way; without an answer its outcome is unknown."""

    key: Hashable
    call: Hashable
    called: float
    outcome: Done | NotDone | Unknown = field(default_factory=Unknown)

    def done(self, call: Hashable, result: Hashable, at: float) -> None:
        """Note its answer, and what it makes of the call: one that changed nothing has only seen something."""
        self.call, self.outcome = call, Done(result, at)

    def nothing(self) -> None:
        """Note that it left no trace."""
        self.outcome = NotDone()


class Linear:
    """The histories of one scenario."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._permits: list[Pending] = []
        self._told: list[Pending] = []
        self._advances: dict[str, list[Pending]] = {}
        self._standing: dict[str, Standing] = {}
        self._applied_s = 0.0

    # ---- attempts

    def asked(self, path: str, items: list[dict[str, Any]]) -> list[Pending]:
        """A worker sends requests for permits or fences."""
        now_s = self._world.loop.now_s
        sent = [
            Pending(
                (item["binding"]["run_id"], item["binding"]["attempt"]),
                Ask(item["reservation"]) if path == "/v1/permits" else Fence(),
                now_s,
            )
            for item in items
        ]
        self._permits += sent
        return sent

    def answered(self, sent: list[Pending], answers: list[dict[str, Any]]) -> None:
        """They were answered."""
        now_s = self._world.loop.now_s
        for pending, answer in zip(sent, answers, strict=True):
            match answer["kind"], answer.get("reason"):
                case ("granted" | "fenced") as kind, _:
                    pending.done(pending.call, kind, now_s)
                case ("permit_exists", _) | ("denied", "already_permitted"):
                    if self._may_only_be(pending.key):
                        pending.nothing()
                    else:
                        pending.done(Seen("permit"), result=True, at=now_s)
                case "denied", "fenced":
                    pending.done(Seen("fence"), result=True, at=now_s)
                case _:
                    pending.nothing()

    def _may_only_be(self, key: Hashable) -> bool:
        """Whether a restore left it open if there ever was a permit: then such an answer tells of none."""
        row = self._world.checker.rows.attempts[key]
        return row["reason"] == "restored" and row["token"] is None

    # ---- runs

    def moved(self, run_ids: set[str]) -> None:
        """A command was applied that changed runs."""
        rows, now_s = self._world.checker.rows, self._world.loop.now_s
        for run_id in sorted(run_ids & rows.runs.keys()):
            run = rows.runs[run_id]
            revision = max((each["revision"] for each in rows.attempts_of(run_id)), default=0)
            after = Standing(run["state"], bool(run["cancelled"]), revision)
            before = self._standing.get(run_id)
            if after != before:
                pending = Pending(run_id, Advance(before, after), self._applied_s, Done(result=True, answered=now_s))
                self._advances.setdefault(run_id, []).append(pending)
                self._standing[run_id] = after
        self._applied_s = now_s

    def told(self, run_id: str, called_s: float, told: Told) -> None:
        """Somebody was told something of a run."""
        self._told.append(Pending(run_id, told, called_s, Done(result=True, answered=self._world.loop.now_s)))

    # ---- the end

    def findings(self) -> list[str]:
        """Return what no order of operations explains."""
        asked = [_operation(each) for each in self._permits]
        unasked = [Operation(key, Fence(), 0.0, Unknown()) for key in {each.key for each in asked}]
        named = {str(each.key) for each in self._told}
        runs = [_operation(each) for run_id in named for each in self._advances.get(run_id, ())]
        found = check([*asked, *unasked], Permit())
        found += check([*runs, *(_operation(each) for each in self._told)], Life())
        return [str(each) for each in found]

    def count(self) -> int:
        """Return how many operations of clients there are."""
        return len(self._permits) + len(self._told)


def _operation(pending: Pending) -> Operation:
    return Operation(pending.key, pending.call, pending.called, pending.outcome)
