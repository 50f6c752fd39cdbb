"""How a serving process ends: asked by a signal, by a fault of its own, or at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Final, NoReturn

import structlog

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger("fencepost")


def on_signal(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGTERM or SIGINT; a second one ends the process like a crash, which is as safe.

    The second one needs no turn of the event loop, which may be what does not end.
    """
    loop = asyncio.get_running_loop()

    def ask() -> None:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, _crash)
        stop()

    for each in _SIGNALS:
        loop.add_signal_handler(each, ask)


def _crash(number: int, _: FrameType | None) -> NoReturn:
    """Write one line past every lock and buffer, which whatever was interrupted may hold, and end."""
    name = signal.Signals(number).name
    os.write(2, b'{"event": "process ended", "level": "critical", "why": "%s while stopping"}\n' % name.encode())
    os._exit(1)


async def or_end_now(part: Coroutine[object, object, object], *fatal: type[BaseException]) -> None:
    """Await a part of the process; a fault of a fatal kind ends the process before anything more is answered."""
    try:
        await part
    except fatal as fault:
        end_now(f"{type(fault).__name__}: {fault}")


async def endless(name: str, part: Coroutine[object, object, object]) -> NoReturn:
    """Await a part that only ever ends by being cancelled: without it the process would look alive and do nothing."""
    await part
    end_now(f"{name} ended by itself")


def end_now(why: str) -> NoReturn:
    """Log one line and end the process at once: no cleanup, no further answer to anybody."""
    _log.critical("process ended", why=why)
    sys.stderr.flush()
    os._exit(1)


def report(faults: BaseExceptionGroup[BaseException]) -> None:
    """Log what made a part of the process fail, one line each, with where it was raised."""
    for fault in _leaves(faults):
        trace, where = fault.__traceback__, []
        while trace is not None:
            where.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
            trace = trace.tb_next
        _log.critical("a part of the process failed", fault=f"{type(fault).__name__}: {fault}", where=where[-6:])


def _leaves(faults: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for each in faults.exceptions:
        found.extend(_leaves(each) if isinstance(each, BaseExceptionGroup) else [each])
    return found
