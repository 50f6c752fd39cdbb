"""Hazard 24, the rest of the audit's list, as far as it can be shown in little (the table names how each is closed)."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest
from pysyncobj import SyncObj, SyncObjConf, replicated, syncobj
from pysyncobj.journal import FileJournal, ResizableFile
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from cluster.frames import MAX_COMMAND_BYTES, REGULAR
from cluster.log_store import LogStore
from cluster.outcome import Unfit
from cluster.pace import MAX_APPLIED_PER_TICK
from cluster.proposals import MAX_PROPOSALS
from tests.simulation.cluster.hazards.library import LibraryRig
from tests.simulation.cluster.hazards.ours import OurRig
from tests.simulation.cluster.hazards.rig import APPLIED, REFUSED, TWO_LEADERS

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the library's

NewLibrary, NewOurs = Callable[..., LibraryRig], Callable[..., OurRig]
ONE, TWO, THREE = "node1", "node2", "node3"


# ---- a whole journal in one tick


def test_hazard_24_o_the_library_applies_its_whole_journal_in_one_tick(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    for _ in range(600):
        rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    rig.now_s += 1.1
    rig.tick(TWO)  # it notes how far it has committed
    rig.kill(TWO)
    rig.start(TWO)
    rig.tick(TWO)
    assert len(rig.state(TWO)) == 600


def test_hazard_24_o_ours_applies_a_bounded_part_in_each_tick(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    for _ in range(600):
        rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])  # with it the disk learns how far everything is committed
    rig.kill(TWO)
    for left in rig.world.disks[TWO].folder.glob("checkpoint.db*"):
        left.unlink()
    rig.world.start(TWO)
    counts = [0]
    for _ in range(5):
        rig.process(TWO).replica.tick()
        counts.append(len(rig.state(TWO)))
    steps = [later - earlier for earlier, later in pairwise(counts)]
    assert counts[-1] >= 600
    assert max(steps) <= MAX_APPLIED_PER_TICK


# ---- a write that fails


def no_space(*_: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def test_hazard_24_o_the_library_goes_on_with_an_entry_that_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = FileJournal(str(tmp_path / "journal"))
    journal.add(b"one", 1, 1)
    with monkeypatch.context() as full:
        full.setattr(ResizableFile, "write", no_space)
        with pytest.raises(OSError, match="No space"):
            journal.add(b"two", 2, 1)
    journal.add(b"three", 3, 1)
    in_memory = [index for _, index, _ in journal[:]]
    journal._destroy()
    again = FileJournal(str(tmp_path / "journal"))
    assert in_memory == [1, 2, 3]
    assert [index for _, index, _ in again[:]] == [1, 3]
    again._destroy()


def test_hazard_24_o_ours_ends_at_a_write_that_fails_and_has_said_nothing_of_it(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    before = rig.log(TWO)[-1]
    rig.process(TWO).log._db._has_space = lambda: False  # type: ignore[attr-defined]  # the simulator's
    op = rig.propose(ONE)
    rig.tick(ONE)
    while rig.on_way(TWO, ONE):
        rig.deliver(TWO, ONE)
    rig.deliver(ONE, TWO)
    assert {found.partition(": writing raft.db")[0] for found in rig.found} == {"node2 stopped"}
    assert rig.on_way(TWO, ONE) == 0
    assert rig.answers(op) == []
    rig.found.clear()
    rig.start(TWO)
    assert rig.log(TWO)[-1] == before
    rig.heal()
    assert rig.answers(op) == [APPLIED]
    assert rig.found == set()


# ---- a file that is no journal


def test_hazard_24_o_the_library_opens_whatever_has_the_name_of_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = FileJournal(str(path))
    journal.add(b"one", 1, 1)
    journal._destroy()
    content = path.read_bytes()
    path.write_bytes(b"SOMETHING ELSE ENTIRELY".ljust(36, b"!") + content[36:])
    again = FileJournal(str(path))
    assert len(again) == 1
    again._destroy()


def test_hazard_24_o_ours_opens_only_what_is_a_log(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.kill(TWO)
    path = rig.world.disks[TWO].folder / "raft.db"
    (path.parent / "raft.db-wal").unlink(missing_ok=True)
    content = path.read_bytes()
    path.write_bytes(b"SOMETHING ELSE ENTIRELY".ljust(36, b"!") + content[36:])
    with pytest.raises(Unfit, match=r"raft\.db: file is not a database"):
        LogStore(path)


# ---- a command's meaning moves when the program grows


class Before(SyncObj):  # type: ignore[misc]  # the library carries no types
    """A user's program."""

    @replicated  # type: ignore[misc]  # the library carries no types
    def pay(self) -> str:
        return "paid"


class After(SyncObj):  # type: ignore[misc]  # the library carries no types
    """The same program later, with one more method."""

    @replicated  # type: ignore[misc]  # the library carries no types
    def cancel(self) -> str:
        return "cancelled"

    @replicated  # type: ignore[misc]  # the library carries no types
    def pay(self) -> str:
        return "paid"


def test_hazard_24_o_the_library_reads_an_old_command_as_another_method(library: NewLibrary) -> None:
    library()  # lends the clock
    conf = SyncObjConf(autoTick=False)
    before, after = (kind(Node("a"), [], conf=conf, transport=Transport(None, None, [])) for kind in (Before, After))
    before.pay()
    command, _ = before._SyncObj__commandsQueue.get_nowait()
    assert before._SyncObj__doApplyCommand(command) == "paid"
    assert after._SyncObj__doApplyCommand(command) == "cancelled"


def test_hazard_24_o_ours_stores_a_command_as_it_was_given(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.propose(ONE, 3)
    rig.agree(ONE, [TWO, THREE])
    assert rig.process(TWO).log.entries[-1].command == REGULAR + b"op1 xxx"


# ---- everything grows


def test_hazard_24_o_the_library_takes_whatever_it_is_given(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    rig.cut_off(ONE)
    for _ in range(2000):
        rig.propose(ONE)
    large = rig.propose(ONE, 5 << 20)
    for _ in range(100):
        rig.tick(ONE)
    assert len(rig.log(ONE)) > 2000
    assert rig.answers(large) == []


def test_hazard_24_o_ours_takes_so_much_and_no_more(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    rig.cut_off(ONE)
    ops = [rig.propose(ONE) for _ in range(MAX_PROPOSALS + 100)]
    rig.tick(ONE)
    assert [op for op in ops if rig.answers(op)] == ops[MAX_PROPOSALS:]
    assert {answer for op in ops for answer in rig.answers(op)} == {REFUSED}


def test_hazard_24_o_ours_takes_no_command_that_is_too_large(ours: NewOurs) -> None:
    rig = ours()
    rig.begin()
    assert rig.answers(rig.propose(ONE, MAX_COMMAND_BYTES)) == [REFUSED]


# ---- memory that is no disk


def test_hazard_24_o_the_library_without_a_journal_file_votes_twice_in_a_term(library: NewLibrary) -> None:
    rig = library(journalFile=None, fullDumpFile=None)
    rig.start_all()
    rig.cut(ONE, THREE)
    rig.elect(THREE, [TWO])
    rig.kill(TWO)
    rig.start(TWO)
    rig.join(ONE, TWO)
    rig.elect(ONE, [TWO])
    assert TWO_LEADERS in rig.found


# ---- snapshots that carry more than the state


def test_hazard_24_o_the_library_copies_one_nodes_attributes_to_another(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    rig.cut_off(THREE)
    for _ in range(5):
        rig.propose(ONE)
    rig.live[ONE].of_this_host_alone = "node 1's"
    rig.agree(ONE, [TWO])
    rig.compact(ONE)
    rig.join(ONE, THREE)
    rig.agree(ONE, [THREE])
    assert rig.live[THREE].of_this_host_alone == "node 1's"


# ---- a callback that raises when the leader changes


def test_hazard_24_o_the_library_refuses_a_new_leader_for_ever_when_a_callback_raises(library: NewLibrary) -> None:
    rig = library()
    rig.begin()
    rig.live[TWO].append("op1", b"", callback=no_space)
    rig.silence(TWO, ONE)
    rig.tick(TWO)
    rig.kill(ONE)
    rig.elect(THREE, [TWO])
    for _ in range(5):
        rig.propose(THREE)
    rig.failures.clear()
    before = rig.log(TWO)
    rig.agree(THREE, [TWO])
    assert rig.failures.total() >= 5
    assert rig.log(TWO) == before


def test_hazard_24_o_ours_lets_the_library_wait_for_nothing_and_read_no_clock_of_its_own(ours: NewOurs) -> None:
    own = (syncobj.monotonicTime, syncobj.random, syncobj.createJournal, syncobj.createPoller)
    rig = ours()
    rig.begin()
    rig.propose(ONE)
    rig.agree(ONE, [TWO, THREE])
    assert (syncobj.monotonicTime, syncobj.random, syncobj.createJournal, syncobj.createPoller) == own
    deadline_s = rig.process(TWO).replica._voter._SyncObj__raftElectionDeadline
    timing = rig.world.timing
    assert deadline_s - rig.process(TWO).replica._clock.mono_s() <= timing.raft_max_s
