import sqlite3
from pathlib import Path

import pytest

from cluster import intake, log_tables
from cluster.checkpoint_store import CheckpointStore
from cluster.intake import append_queued
from cluster.log_store import LogStore
from cluster.outcome import Applied, FailStop, NotApplied, OutcomeUnknown, Why
from cluster.proposals import Outcome, Proposals
from tests.simulation.cluster.machine import Appends, appended
from tests.unit.cluster.fakes import identity


class Desk:
    """A leader's log, checkpoint and proposals, without Raft around them."""

    def __init__(self, home: Path) -> None:
        log_tables.create(home / "raft.db", identity())
        self.log = LogStore(home / "raft.db")
        self.log.set_term(1, None)
        self.machine = Appends()
        self.checkpoint = CheckpointStore(home / "checkpoint.db", identity(), self.machine)
        self.proposals = Proposals()
        self.heard: dict[bytes, Outcome] = {}

    def offer(self, *commands: bytes) -> None:
        for command in commands:
            self.proposals.offer(command, lambda outcome, command=command: self.heard.update({command: outcome}))

    def append(self) -> list[bytes]:
        """Let one tick append; return the commands in the log behind what is applied."""
        append_queued(self.proposals, self.log, self.checkpoint, 1)
        return [entry.command[1:] for entry in self.log.after(self.checkpoint.applied_index, 100)]

    def apply(self, count: int = 100) -> None:
        self.log.sync()
        for entry in self.log.after(self.checkpoint.applied_index, count):
            self.proposals.applied(entry, self.checkpoint.apply(entry))
        self.checkpoint.commit()
        self.proposals.settle()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_what_fails_is_refused_with_its_fault_and_the_rest_is_appended(desk: Desk) -> None:
    desk.offer(b"a", b"poison", b"b")
    assert desk.append() == [b"a", b"b"]
    desk.apply()
    refused = desk.heard[b"poison"]
    assert isinstance(refused, NotApplied)
    assert (refused.why, str(refused)) == (Why.FAILED_TRIAL, "failed_trial: FailStop: an unknown kind of command")
    assert isinstance(desk.heard[b"a"], Applied)
    assert isinstance(desk.heard[b"b"], Applied)


def test_a_trial_leaves_nothing_behind_committed_or_not(desk: Desk) -> None:
    desk.offer(b"a", b"poison")
    digest = desk.checkpoint.digest
    desk.append()
    assert desk.checkpoint.read(appended) == []
    assert (desk.checkpoint.applied_index, desk.checkpoint.digest) == (1, digest)
    desk.log.sync()
    desk.checkpoint.apply(desk.log.entry(2))  # in a transaction that is not committed yet
    desk.offer(b"b", b"poison")
    desk.append()
    desk.checkpoint.commit()
    assert desk.checkpoint.read(appended) == ["a"]


def test_what_is_refused_leaves_nothing_behind_for_those_after_it(desk: Desk) -> None:
    desk.offer(b"rival1", b"poison", b"rival2", b"c")
    assert desk.append() == [b"rival1", b"c"], "two rivals in a row, though something failed between them"


def test_a_result_that_cannot_enter_the_digest_is_found_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(_db: sqlite3.Connection, command: bytes) -> object:
        return object() if command == b"odd" else None

    monkeypatch.setattr(desk.machine, "apply", apply)
    desk.offer(b"odd", b"even")
    assert desk.append() == [b"even"]


def test_what_is_ahead_is_tried_again_first_so_that_the_state_is_the_one_to_come(desk: Desk) -> None:
    desk.offer(b"rival1")
    assert desk.append() == [b"rival1"]
    desk.offer(b"rival2", b"c")
    assert desk.append() == [b"rival1", b"c"]


def test_a_batch_waits_while_too_much_is_ahead_and_nothing_asks_for_another_tick(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MAX_AHEAD", 2)
    desk.offer(b"a", b"b", b"c")
    assert desk.append() == [b"a", b"b", b"c"]
    desk.offer(b"d")
    assert desk.append() == [b"a", b"b", b"c"]
    assert not desk.proposals.queued, "only an acknowledgement helps; ticking at once would spin"
    desk.apply(count=1)
    assert desk.append() == [b"b", b"c", b"d"]


def test_large_entries_ahead_hold_a_batch_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_AHEAD_BYTES", 10)
    desk.offer(b"0123456789")
    desk.append()
    desk.offer(b"b")
    assert desk.append() == [b"0123456789"]
    desk.proposals.leadership_lost()
    desk.proposals.refuse(Why.NOT_LEADER)
    desk.proposals.settle()
    assert isinstance(desk.heard[b"0123456789"], OutcomeUnknown)
    assert isinstance(desk.heard[b"b"], NotApplied)


def test_an_entry_in_the_log_that_fails_stops_the_leader_before_it_makes_it_worse(desk: Desk) -> None:
    desk.log.append(b"\x00poison", 2, 1)
    desk.offer(b"a")
    with pytest.raises(FailStop, match="entry 2"):
        desk.append()


def test_a_failing_database_is_nobodys_command(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(db: sqlite3.Connection, _command: bytes) -> object:
        db.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(desk.machine, "apply", apply)
    desk.offer(b"a")
    with pytest.raises(sqlite3.OperationalError, match="no such savepoint"):
        desk.append()
