"""What /proc of this host says about processes, and signals that cannot hit a stranger."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DEAD: Final = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; pid and start time together name it for as long as the host runs.

    Attributes:
        group: its process group.
        started_ticks: its start in clock ticks since boot.
        alive: False for a zombie, which runs nothing any more.
    """

    pid: int
    group: int
    session: int
    started_ticks: int
    alive: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """How the processes of one attempt are known: by session and group, or by the variables that children inherit."""

    leader: int
    started_ticks: int
    run_id: str
    attempt: int


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
    return Process(
        pid=pid,
        group=int(fields[2]),
        session=int(fields[3]),
        started_ticks=int(fields[19]),
        alive=fields[0].decode() not in _DEAD or int(fields[17]) > 1,  # a zombie leader may have living threads
    )


def members(mark: Mark) -> list[Process]:
    """Return the living processes of an attempt, by pid.

    A process that left group and session is still found by FENCEPOST_RUN_ID and FENCEPOST_ATTEMPT in its initial
    environment; one that left both and was started without them is not.
    """
    return [found for found in _all() if found.started_ticks >= mark.started_ticks and _belongs(found, mark)]


def marked(run_id: str, attempt: int) -> list[Process]:
    """Return the living processes whose environment names the attempt, where no leader is known."""
    return [found for found in _all() if _named(found.pid, run_id, attempt)]


def send(target: Process, number: signal.Signals) -> None:
    """Signal exactly this process; nothing happens if it has ended, even if its pid is in use again."""
    try:
        handle = os.pidfd_open(target.pid)
    except OSError:
        return
    try:
        now = process(target.pid)  # the handle pins the pid: what we read now is what we signal
        if now is not None and now.started_ticks == target.started_ticks:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)


def _all() -> Iterator[Process]:
    own = os.getpid()
    for name in os.listdir(_PROC):  # noqa: PTH208 - hot: thousands of entries, no Path for each
        if name.isdigit() and int(name) != own:
            found = process(int(name))
            if found is not None and found.alive:
                yield found


def _belongs(found: Process, mark: Mark) -> bool:
    return mark.leader in {found.session, found.group} or _named(found.pid, mark.run_id, mark.attempt)


def _named(pid: int, run_id: str, attempt: int) -> bool:
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"FENCEPOST_RUN_ID={run_id}".encode() in variables and f"FENCEPOST_ATTEMPT={attempt}".encode() in variables
