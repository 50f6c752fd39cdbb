"""What one script needs to drive a cluster, whoever is in it: the library as it ships, or our voters.

Nothing moves by itself. A script lets time pass, ticks one voter, and carries single messages from one to another, so
that it can hold the very message whose order decides. `heal` ends the script: everything flows until it rests.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Final

LOST: Final = "an acknowledged command is lost"
TWO_AT_ONE_INDEX: Final = "two commands at one index"
TWICE: Final = "a command is applied twice"
DENIED_YET_APPLIED: Final = "a refused command is applied"
NEVER_ANSWERED: Final = "a caller is never answered"
TWO_LEADERS: Final = "two leaders in one term"
UNEQUAL: Final = "states differ"

APPLIED, REFUSED, UNKNOWN = "applied", "refused", "unknown"  # what a caller is told
FAR_S: Final = 1000.0


class Rig(ABC):
    """A cluster under a script.

    Attributes:
        now_s: the only time there is, seconds.
        found: what went wrong so far, in the words above or in those of a voter that stopped.
    """

    beat_s: float  # a little more than the time between two heartbeats
    now_s = 1000.0

    def __init__(self, voters: int) -> None:
        self.names = [f"node{rank}" for rank in range(1, voters + 1)]
        self.found: set[str] = set()
        self._leaders: dict[int, str] = {}
        self._asked_of: dict[str, object] = {}  # op -> the life that took it

    # ---- processes and links

    @abstractmethod
    def start(self, name: str) -> None:
        """Start a voter on what its disk holds; nobody is linked to it yet."""

    @abstractmethod
    def kill(self, name: str, *, power: bool = False, heard: bool = False) -> None:
        """End a voter: kill -9, or with its host's power. With `heard`, what it has sent still arrives."""

    @abstractmethod
    def life(self, name: str) -> object | None:
        """Return the running process of a voter, or None."""

    @abstractmethod
    def join(self, one: str, two: str) -> None:
        """Make a connection."""

    @abstractmethod
    def cut(self, one: str, two: str) -> None:
        """End a connection, and lose what is on its way."""

    @abstractmethod
    def silence(self, one: str, two: str) -> None:
        """Lose whatever one sends to the other from now on, until the connection is cut."""

    @abstractmethod
    def on_way(self, one: str, two: str) -> int:
        """Return how many messages that matter are on their way from one to the other."""

    @abstractmethod
    def deliver(self, one: str, two: str, count: int | None = None) -> int:
        """Carry the oldest messages from one to the other, all by default; return how many that matter."""

    @abstractmethod
    def tick(self, name: str) -> None:
        """Tick one voter."""

    @abstractmethod
    def flow(self, seconds: float) -> None:
        """Let everything happen by itself for a while."""

    @abstractmethod
    def stand(self, name: str) -> None:
        """Let a voter's election deadline pass, and tick it."""

    @abstractmethod
    def postpone(self, name: str, seconds: float = FAR_S) -> None:
        """Keep a voter from standing for election for a while."""

    # ---- what there is to see

    @abstractmethod
    def leads(self, name: str) -> bool:
        """Whether a voter believes that it leads."""

    @abstractmethod
    def term(self, name: str) -> int:
        """Return a voter's term."""

    @abstractmethod
    def log(self, name: str) -> list[tuple[int, int]]:
        """Return a voter's log as (index, term)."""

    @abstractmethod
    def state(self, name: str) -> list[str]:
        """Return what a voter's machine has applied, in order."""

    @abstractmethod
    def answers(self, op: str) -> list[str]:
        """Return what the caller of a command was told, in order."""

    @abstractmethod
    def match(self, leader: str, name: str) -> int:
        """Return up to where a leader believes a voter's log to equal its own."""

    @abstractmethod
    def compact(self, name: str) -> None:
        """Let a voter drop from its log what its state holds."""

    # ---- clients

    def propose(self, name: str, size: int = 20) -> str:
        """Hand a command to a voter; nothing happens before its next tick."""
        op = f"op{len(self._asked_of) + 1}"
        self._asked_of[op] = self.life(name)
        self._submit(name, op, size)
        return op

    @abstractmethod
    def _submit(self, name: str, op: str, size: int) -> None: ...

    def told(self, what: str) -> list[str]:
        """Return the commands whose callers were told so."""
        return [op for op in self._asked_of if what in self.answers(op)]

    # ---- what scripts are made of

    def others(self, *names: str) -> list[str]:
        return [name for name in self.names if name not in names]

    def start_all(self) -> None:
        for name in self.names:
            self.start(name)
        self.join_all()
        self.settle()

    def join_all(self) -> None:
        for rank, one in enumerate(self.names):
            for two in self.names[rank + 1 :]:
                self.join(one, two)

    def cut_off(self, name: str) -> None:
        for other in self.others(name):
            self.cut(name, other)

    def beat(self, name: str) -> None:
        """Let one heartbeat come due at a voter, and tick it."""
        self.now_s += self.beat_s
        self.tick(name)

    def settle(self) -> None:
        """Carry everything until nothing is on its way; no time passes."""
        for _ in range(100):
            if not sum(self.deliver(one, two) for one in self.names for two in self.others(one)):
                return

    def elect(self, name: str, voters: Collection[str]) -> None:
        """Make a voter leader by the votes of these, who have not heard of another leader for a while."""
        assert not self.leads(name), f"{name} leads already"
        for _ in range(3):  # a term may be taken already, or not known yet
            for voter in voters:
                self.deliver(voter, name)
            self.now_s += 0.7
            for each in (name, *voters):
                if not self.leads(each):
                    self.postpone(each)
            self.stand(name)
            for voter in (*voters, *voters):  # the first round asks beforehand, where that is done
                self.deliver(name, voter)
                self.deliver(voter, name)
                if self.leads(name):
                    return
        raise AssertionError(f"{name} is not elected")

    def agree(self, leader: str, names: Iterable[str]) -> None:
        """Let a leader and some followers agree on everything that the leader holds."""
        names = list(names)
        for _ in range(5):
            self.beat(leader)
            for name in names:
                self.deliver(leader, name)
                self.deliver(name, leader)
        for name in names:
            self.tick(name)

    def begin(self) -> None:
        """Start everybody, elect the first voter, and let all agree."""
        self.start_all()
        self.elect(self.names[0], self.names[1:])
        self.agree(self.names[0], self.names[1:])

    # ---- the end

    @property
    def rested(self) -> bool:
        """Whether one leads, all logs end alike and everybody has applied all of it."""
        lives = [name for name in self.names if self.life(name) is not None]
        ends = {self.log(name)[-1] for name in lives}
        states = {tuple(self.state(name)) for name in lives}
        return len(lives) == len(self.names) and len(ends) == len(states) == 1 and any(map(self.leads, lives))

    def heal(self, seconds: float = 20.0) -> bool:
        """Start whoever is down, connect everybody anew, let everything flow, and look at what is left of it.

        Returns:
            Whether it came to rest.
        """
        for name in self.names:
            if self.life(name) is None:
                self.start(name)
        for rank, one in enumerate(self.names):
            for two in self.names[rank + 1 :]:
                self.cut(one, two)
        self.join_all()
        for rank, name in enumerate(self.names):
            self.postpone(name, 0.5 + 0.3 * rank)
        end_s = self.now_s + seconds
        while self.now_s < end_s and not self.rested:
            self.flow(0.5)
        self.look()
        return self.rested

    def look(self) -> None:
        """Compare what callers were told with what the voters hold."""
        lives = [name for name in self.names if self.life(name) is not None]
        states = [self.state(name) for name in lives]
        longest = max(states, key=len)
        for state in states:
            if state != longest[: len(state)]:
                self.found.add(UNEQUAL)
            if len(set(state)) != len(state):
                self.found.add(TWICE)
        for op, life in self._asked_of.items():
            answers = self.answers(op)
            if APPLIED in answers and any(op not in state for state in states):
                self.found.add(LOST)
            if REFUSED in answers and any(op in state for state in states):
                self.found.add(DENIED_YET_APPLIED)
            if len(answers) > 1:
                self.found.add(f"{op} is answered {len(answers)} times")
            if not answers and any(self.life(name) is life for name in lives):
                self.found.add(NEVER_ANSWERED)

    def _note_leader(self, name: str) -> None:
        if self.life(name) is not None and self.leads(name) and self._leaders.setdefault(self.term(name), name) != name:
            self.found.add(TWO_LEADERS)

    @abstractmethod
    def close(self) -> None:
        """End everybody and give files back."""
