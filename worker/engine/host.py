"""What /proc of this host says about processes, and signals that cannot hit a stranger."""

import os
import signal
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEEPER_VARIABLE: Final = "FENCEPOST_KEEPER"
_PROC: Final = Path("/proc")
_DEAD: Final = frozenset("ZXx")
_STOPPED: Final = "T"


@dataclass(frozen=True, slots=True)
class Process:
    """One process; pid and start time together name it for as long as the host runs.

    Attributes:
        parent: its parent's pid now.
        group: its process group.
        started_ticks: its start in clock ticks since boot.
        state: the letter of proc(5).
        alive: False for a zombie, which runs nothing any more.
    """

    pid: int
    parent: int
    group: int
    session: int
    started_ticks: int
    state: str
    alive: bool

    @property
    def key(self) -> tuple[int, int]:
        """What names it: pid and start time."""
        return self.pid, self.started_ticks


def boot_id() -> str:
    """Return the identity of this boot of the host."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def process(pid: int) -> Process | None:
    """Return what is known of a pid now, or None if there is no such process.

    Source: proc(5), /proc/pid/stat; the command's name may hold anything, so fields count from its last bracket.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    state = fields[0].decode()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started_ticks=int(fields[19]),
        state=state,
        alive=state not in _DEAD or int(fields[17]) > 1,  # a zombie leader may have living threads
    )


def below(keeper: Process) -> list[Process]:
    """Return the living descendants of a keeper. One that is born or orphaned during the look may be missed once."""
    table = _table()
    found = table.get(keeper.pid)
    if found is None or found.key != keeper.key:
        return []
    return _below(table, [keeper.pid])


def marked(run_id: str, attempt: int) -> list[Process]:
    """Return the living processes whose initial environment names the attempt, wherever they are."""
    return [found for found in _table().values() if found.alive and _named(found.pid, run_id, attempt)]


def traces(run_id: str, attempt: int, leader: tuple[int, int] | None) -> list[Process]:
    """Return the living processes that may belong to an attempt, for words about them, by pid.

    These are the descendants of its keeper, if that is alive, and what carries its variables, its session or its
    group (the latter only a hint: the number may be in use again). Enough to say what may be alive, not to signal it.
    """
    table = _table()
    keeper = f"{KEEPER_VARIABLE}={keeper_name(run_id, attempt)}".encode()
    found = {each.pid: each for each in _below(table, [pid for pid in table if keeper in _variables(pid)])}
    for each in table.values():
        linked = leader is not None and leader[0] in {each.session, each.group} and each.started_ticks >= leader[1]
        if each.alive and (linked or _named(each.pid, run_id, attempt)):
            found[each.pid] = each
    return [found[pid] for pid in sorted(found)]


def keeper_name(run_id: str, attempt: int) -> str:
    """Return what stands in `KEEPER_VARIABLE` of an attempt's keeper (and of no command)."""
    return f"{run_id}.{attempt}"


def holders(inodes: Collection[int]) -> list[int]:
    """Return the pids, this process aside, that have one of these pipes open, as far as this user may see."""
    wanted = {f"pipe:[{inode}]" for inode in inodes}
    return [pid for pid in _pids() if not wanted.isdisjoint(_open(pid))]


def send(target: Process, number: signal.Signals) -> None:
    """Signal exactly this process; nothing happens if it has ended, even if its pid is in use again."""
    _signal(target, [number])


def end_with_group(target: Process) -> None:
    """SIGKILL this process, and its group in the same stroke, so that no fork of a member slips through.

    The group is hit only while this member of it is seen stopped: so the number is still that of its group.
    """
    _signal(target, [signal.SIGSTOP])
    now = process(target.pid)
    if now is not None and now.key == target.key and now.state == _STOPPED and now.group != os.getpgrp():
        with suppress(OSError):  # not ours to signal: the process itself is tried below
            os.killpg(now.group, signal.SIGKILL)
    _signal(target, [signal.SIGKILL])


def _signal(target: Process, numbers: Iterable[signal.Signals]) -> None:
    try:
        handle = os.pidfd_open(target.pid)
    except OSError:
        return
    try:
        now = process(target.pid)  # read after the handle was opened: if it is the one, the handle is its own
        if now is not None and now.key == target.key:
            for number in numbers:
                signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)


def _below(table: Mapping[int, Process], roots: Iterable[int]) -> list[Process]:
    children = defaultdict[int, list[Process]](list)
    for each in table.values():
        children[each.parent].append(each)
    found: dict[int, Process] = {}
    ahead = list(roots)
    while ahead:
        for each in children[ahead.pop()]:
            if each.pid not in found:
                found[each.pid] = each
                ahead.append(each.pid)
    return [found[pid] for pid in sorted(found) if found[pid].alive]


def _pids() -> list[int]:
    own = os.getpid()
    names = os.listdir(_PROC)  # noqa: PTH208 - hot: thousands of entries, no Path for each
    return [int(name) for name in names if name.isdigit() and int(name) != own]


def _table() -> dict[int, Process]:
    """Return every process but this one, zombies too: a dead parent still links what is below it."""
    return {pid: found for pid in _pids() if (found := process(pid)) is not None}


def _variables(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _named(pid: int, run_id: str, attempt: int) -> bool:
    variables = _variables(pid)
    return f"FENCEPOST_RUN_ID={run_id}".encode() in variables and f"FENCEPOST_ATTEMPT={attempt}".encode() in variables


def _open(pid: int) -> set[str]:
    found = set[str]()
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - hot, as above
    except OSError:
        return found
    for name in names:
        try:
            found.add(os.readlink(f"{folder}/{name}"))  # noqa: PTH115 - hot, as above
        except OSError:
            continue
    return found
