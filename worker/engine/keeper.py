"""The keeper of one attempt: the process between worker and command under which the command's whole tree stays.

Run as a script by `keeping.Keeper`, with two handles: the job to read, and a pipe to say what happens, one JSON list a
line: `started` (pid, start time in ticks) or `refused` (what, why); then `ended` (exit code); then `empty`, said only
after the kernel has answered that this process has no child left. As a child subreaper it becomes the parent of every
orphan of the tree, whatever that did to its session, group or environment: no child left is no descendant left.

It never signals anything, imports nothing of this house, and outlives a worker that is killed.
"""

import ctypes
import errno
import json
import os
import signal
import sys
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_SHIELDED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class _Refused(Exception):
    """The command was not started; the arguments say what failed, and why."""


def main() -> None:
    """Start the command, say how it goes, and end once nothing of it is left."""
    job_handle, said = int(sys.argv[1]), int(sys.argv[2])
    for handle in (job_handle, said):
        os.set_inheritable(handle, False)  # noqa: FBT003 - it takes no name
    with os.fdopen(job_handle, "rb") as source:
        job = json.load(source)
    try:
        pid = _start(job)
    except _Refused as refusal:
        _say(said, "refused", *refusal.args)
        return
    try:
        _say(said, "started", pid, _started_ticks(pid))
    except BaseException:
        os.kill(pid, signal.SIGKILL)  # nobody would know of it; not reaped yet, so the pid is its own
        raise
    _let_go()
    while True:
        try:
            ended, status = os.waitpid(-1, 0)
        except ChildProcessError:
            break
        if ended == pid:
            _say(said, "ended", os.waitstatus_to_exitcode(status))
    _say(said, "empty")


def _start(job: dict[str, list[str]]) -> int:
    """Become the reaper of what follows, and start the command in a session of its own; return its pid."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise _Refused("this host", f"cannot keep a process tree together: {os.strerror(ctypes.get_errno())}")
    argv = [text.encode("latin-1") for text in job["argv"]]
    env = {
        name.encode("latin-1"): value.encode("latin-1") for name, value in zip(job["names"], job["values"], strict=True)
    }
    for cwd in job["cwd"]:
        try:
            os.chdir(cwd.encode("latin-1"))
        except (OSError, ValueError) as fault:
            raise _Refused(cwd, _why(fault)) from fault
    freed = [number for number in _SHIELDED if signal.getsignal(number) is not signal.SIG_IGN]
    for number in freed:
        signal.signal(number, signal.SIG_IGN)  # a command that signals its parent must not end what keeps it
    worst: OSError | None = None
    for path in _candidates(argv[0], env):
        try:
            return os.posix_spawn(path, argv, env, setsid=True, setsigdef=[*freed, signal.SIGPIPE, signal.SIGXFSZ])
        except OSError as fault:
            if worst is None or fault.errno not in {errno.ENOENT, errno.ENOTDIR}:
                worst = fault
        except ValueError as fault:  # a NUL byte or "=" where execve allows none
            raise _Refused("its argv or environment", f"cannot be passed to the system: {fault}") from fault
    raise _Refused(argv[0].decode("latin-1"), _why(worst) if worst is not None else "its PATH is empty")


def _candidates(name: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """Return where a program may be: where its name says, or in the folders of the command's own PATH."""
    if b"/" in name:
        return [name]
    places = env.get(b"PATH", os.defpath.encode()).split(b":")
    return [os.path.join(place, name) for place in places]  # noqa: PTH118 - bytes, which no Path takes


def _started_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - this process lives per attempt: no pathlib in it
        return int(stat.read().rpartition(b")")[2].split()[19])


def _let_go() -> None:
    """Hold neither the command's output nor its folder."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (1, 2):
        os.dup2(nothing, handle)
    os.close(nothing)
    os.chdir("/")


def _why(fault: OSError | ValueError) -> str:
    return fault.strerror or str(fault) if isinstance(fault, OSError) else str(fault)


def _say(said: int, *words: object) -> None:
    try:
        os.write(said, json.dumps(words).encode() + b"\n")
    except BrokenPipeError:
        return  # the worker is gone; the tree is kept together all the same, so that a later one can see it


if __name__ == "__main__":
    main()
