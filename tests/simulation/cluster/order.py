"""The order of durability, judged from what was recorded: rules of cluster/DESIGN.md, and nothing of the code.

What a voter's disk holds for certain is what its files held when they were last synced. Everything that the voter
says, applies, compacts or installs is held against that, at the moment of the event.
"""

from dataclasses import dataclass, field
from typing import Final

from cluster.frames import (
    Append,
    Digests,
    Frame,
    Hello,
    Malformed,
    Matched,
    PreVote,
    RequestVote,
    Standing,
    Vote,
    decode_frame,
    decode_hello,
)
from tests.simulation.cluster.recording import (
    CHECKPOINT,
    CHECKPOINT_WAL,
    INCOMING,
    RAFT,
    Answered,
    EntryApplied,
    Event,
    FileSynced,
    FolderSynced,
    LogView,
    LogWritten,
    Removed,
    Renamed,
    Sent,
    Started,
    StateFound,
    StateView,
    StateWritten,
    Swapped,
)

GENESIS: Final = LogView(0, None, 1, 1, (0,), None)


@dataclass(slots=True)
class Disk:
    """One voter's disk: what is there for certain, and what kill -9 would leave."""

    log: LogView = GENESIS
    log_written: LogView = GENESIS
    log_end_before: int = 1
    applied: int = 1
    applied_for_certain: int = 1
    copy_synced: bool = False
    wal_removed: bool = False
    wal_gone: bool = False
    renamed: StateView | None = None
    lost_power: bool = False
    swapped: bool = False
    said_term: int = 0
    votes: dict[int, str] = field(default_factory=dict)


class Order:
    """Takes events in their order; `violations` says what was done too early."""

    def __init__(self, voters: list[str]) -> None:
        self.violations: list[str] = []
        self.disks = {voter: Disk() for voter in voters}
        self.committed = 1
        self.digests = {1: bytes(32)}
        self._sent_of_term: dict[tuple[int, int], int] = {}  # (leader's term, index) -> term of the entry

    def take(self, event: Event) -> None:
        voter, disk = event.voter, self.disks[event.voter]
        match event:
            case Swapped():
                disk.swapped = True
            case Started(log=log, power=power):
                self._started(voter, disk, log, power=power)
            case StateFound(state=state):
                self._state_found(voter, disk, state)
            case LogWritten(log=log):
                disk.log_written = log
            case StateWritten(state=state):
                disk.applied, disk.wal_removed, disk.wal_gone = state.applied, False, False
            case FileSynced(name=name):
                self._file_synced(voter, disk, name)
            case FolderSynced():
                self._folder_synced(disk)
            case Removed(name=name):
                disk.wal_removed = disk.wal_removed or name == CHECKPOINT_WAL
                disk.copy_synced = disk.copy_synced and name != INCOMING
            case Renamed(state=state):
                self._renamed(voter, disk, state)
            case EntryApplied():
                self._applied(voter, disk, event)
            case Sent(peer=peer, frame=raw):
                self._sent(voter, disk, peer, raw)
            case Answered(outcome=outcome):
                self._claimed_committed(voter, outcome.index, outcome.term, "answers that")
                self._expect(disk.log.last >= outcome.index, voter, f"answers {outcome.index}, not on its own disk")
                self._expect(disk.applied >= outcome.index, voter, f"answers {outcome.index}, which no reader sees yet")

    def _expect(self, holds: object, voter: str, otherwise: str) -> None:
        if not holds:
            self.violations.append(f"order: {voter} {otherwise}")

    # ---- what is stored

    def _started(self, voter: str, disk: Disk, log: LogView, *, power: bool) -> None:
        if disk.swapped:
            disk.log, disk.log_written, disk.said_term, disk.renamed = log, log, log.term, None
        expected = [disk.log, disk.log_written] if power else [disk.log_written]
        self._expect(log in expected, voter, f"starts with {log}, what is on its disk is one of {expected}")
        self._expect(log.term >= disk.said_term, voter, f"starts in term {log.term}, it spoke in {disk.said_term}")
        disk.log_written, disk.lost_power = log, power
        if power:
            disk.log, disk.renamed = log, None

    def _state_found(self, voter: str, disk: Disk, state: StateView) -> None:
        if disk.swapped:  # one of the two files may have gone back without the other
            disk.applied = disk.applied_for_certain = state.applied
            disk.swapped = disk.lost_power = False
            return
        self._expect(state.applied >= disk.applied_for_certain, voter, f"has lost what it applied: {state.applied}")
        self._expect(
            state.applied <= max(disk.log_written.last, *(disk.log_written.installing or (0,))),
            voter,
            (f"has applied {state.applied}, its log ends at {disk.log_written.last}"),
        )
        self._expect(
            self.digests.get(state.applied, state.digest) == state.digest,
            voter,
            (f"finds another digest at {state.applied}"),
        )
        disk.applied = state.applied
        if disk.lost_power:  # what it left is on disk
            disk.applied_for_certain, disk.lost_power = state.applied, False

    def _file_synced(self, voter: str, disk: Disk, name: str) -> None:
        if name.startswith(RAFT):
            self._log_synced(voter, disk, disk.log_written)
        elif name == INCOMING:
            disk.copy_synced = True
        elif name.startswith(CHECKPOINT) and disk.renamed is None:
            disk.applied_for_certain = max(disk.applied_for_certain, disk.applied)

    def _log_synced(self, voter: str, disk: Disk, log: LogView) -> None:
        was, disk.log = disk.log, log
        disk.log_end_before = was.last
        self._expect((log.term, log.commit_index) >= (was.term, 0), voter, f"goes back from {was} to {log}")
        if log.term == was.term and was.voted_for is not None:
            self._expect(log.voted_for == was.voted_for, voter, f"changes its vote of term {log.term}")
        self._expect(
            log.first == 1 or disk.swapped or log.first <= disk.applied_for_certain,
            voter,
            (f"starts its log at {log.first}, checkpoint.db has {disk.applied_for_certain} on disk for certain"),
        )
        if was.installing and not log.installing:
            self._expect(disk.renamed is None, voter, "forgets an installation before the new name is on disk")
        if log.installing is None:
            disk.wal_removed = disk.wal_gone = False

    def _folder_synced(self, disk: Disk) -> None:
        disk.wal_gone = disk.wal_gone or disk.wal_removed
        if disk.renamed is not None:
            disk.applied_for_certain = max(disk.applied_for_certain, disk.renamed.applied)
            disk.renamed = None

    def _renamed(self, voter: str, disk: Disk, state: StateView) -> None:
        self._expect(disk.copy_synced, voter, "installs a copy whose bytes are not synced")
        self._expect(disk.wal_gone, voter, "installs a copy beside the old WAL, or before its removal is on disk")
        noted = disk.log.installing
        self._expect(noted == (state.applied, state.term), voter, f"installs {state.applied}, its disk notes {noted}")
        self._expect(state.applied > disk.applied, voter, f"goes back from {disk.applied} to {state.applied}")
        disk.renamed, disk.applied, disk.copy_synced = state, state.applied, False

    def _applied(self, voter: str, disk: Disk, event: EntryApplied) -> None:
        index = event.index
        self._claimed_committed(voter, index, event.term, "applies that")
        self._expect(disk.log.term_at(index) == event.term, voter, f"applies {index}, which its disk does not hold")
        self._expect(
            self.digests.setdefault(index, event.digest) == event.digest, voter, f"has another digest at {index}"
        )

    # ---- what is said

    def _sent(self, voter: str, disk: Disk, peer: str, raw: bytes) -> None:
        try:
            frame: Frame | Hello = decode_frame(raw)
        except Malformed:
            frame = decode_hello(raw)
        self._expect(
            frame.term <= disk.log.term,
            voter,
            (f"speaks in term {frame.term} to {peer}, its disk is in {disk.log.term}: {frame}"),
        )
        disk.said_term = max(disk.said_term, frame.term)
        if isinstance(frame, Hello):
            self._expect(frame.last_index <= disk.log.last, voter, f"greets with {frame.last_index} entries")
            return
        self._expect(frame.applied_index <= disk.log.last, voter, f"has applied {frame.applied_index}, not on its disk")
        if frame.term == disk.log.term:  # what an earlier term's message claims was overtaken by the one on disk
            self._hold_against_disk(voter, disk, peer, frame)
        self._claims(voter, disk, peer, frame)

    def _hold_against_disk(self, voter: str, disk: Disk, peer: str, frame: Frame) -> None:
        log = disk.log
        match frame.message:
            case Append():
                self._expect(log.voted_for == voter, voter, f"leads term {log.term}, its disk votes {log.voted_for}")
            case Matched(index=index):
                held = index <= log.first or log.term_at(index) == self._sent_of_term.get((log.term, index), -1)
                self._expect(held, voter, f"acknowledges {index} of term {log.term}, its disk holds {log}")
            case Vote():
                self._expect(log.voted_for == peer, voter, f"votes for {peer}, its disk for {log.voted_for}")
            case RequestVote(last_index=index, last_term=term):
                self._expect(log.voted_for == voter, voter, f"stands, its disk votes {log.voted_for}")
                self._expect((log.last, log.terms[-1]) == (index, term), voter, f"claims {index} in an election: {log}")
            case PreVote(last_index=index, last_term=term):
                self._expect((log.last, log.terms[-1]) == (index, term), voter, f"claims {index} beforehand: {log}")
            case Standing(last_index=index):
                self._expect(index <= max(log.last, disk.log_end_before), voter, f"says that it holds {index}: {log}")
            case _:
                pass

    def _claims(self, voter: str, disk: Disk, peer: str, frame: Frame) -> None:
        """Hold what holds in any term."""
        match frame.message:
            case Append(commit_index=commit, prev_index=prev, prev_term=prev_term, entries=entries):
                for index, term in enumerate([prev_term, *(term for term, _ in entries)], start=prev):
                    known = self._sent_of_term.setdefault((frame.term, index), term)
                    self._expect(known == term, voter, f"sends two entries at {index} in term {frame.term}")
                self._claimed_committed(voter, commit, disk.log.term_at(commit), "says that")
            case Vote():
                self._vote(voter, disk, frame.term, peer)
            case RequestVote():
                self._vote(voter, disk, frame.term, voter)
            case Digests(claims=claims):
                newest = max(index for index, _ in claims)
                self._expect(newest <= disk.applied, voter, f"tells a digest of {newest}, which is not committed")
            case _:
                pass

    def _vote(self, voter: str, disk: Disk, term: int, candidate: str) -> None:
        told = disk.votes.setdefault(term, candidate)
        self._expect(told == candidate, voter, f"votes for {told} and for {candidate} in term {term}")

    def _claimed_committed(self, voter: str, index: int, term: int | None, how: str) -> None:
        """When first anybody treats an entry as committed, a majority must hold it on disk."""
        if index <= self.committed:
            return
        holders = [name for name, disk in self.disks.items() if disk.log.first >= index or self._has(disk, index, term)]
        self._expect(
            2 * len(holders) > len(self.disks),
            voter,
            (f"{how} {index} is committed, on disk it is at {holders} of {len(self.disks)}"),
        )
        self.committed = index

    def _has(self, disk: Disk, index: int, term: int | None) -> bool:
        return term is not None and disk.log.term_at(index) == term
