"""The console of a runner: lines from its standard input, one after the other, each with its one answer on its output.

No line is read before the answer to the one before it was taken, so nothing piles up on either side: who does not read
answers is not read either, and everything else of the voter goes on.
"""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from fencepost.console_text import text
from fencepost.standard_streams import Ends
from runner.management.console import Console, Order
from runner.management.console_answers import Answer
from runner.management.line_input import Line, LineSplitter
from runner.management.spoken import is_json

SLOW_S: Final = 10.0
LAST_WORDS_S: Final = 1.0

_log = structlog.get_logger("fencepost.console")


class StdinConsole:
    """Lives as long as its input and its output do, and at most as long as the runner, which does not end with it."""

    def __init__(self, console: Console, ends: Ends) -> None:
        """Keep both; nothing is read before `run`."""
        self._console = console
        self._ends = ends
        self._is_held = False

    def hold(self) -> None:
        """Begin no further line; the one under way still gets its answer."""
        self._is_held = True

    async def run(self) -> None:
        """Answer lines until the input ends, its output is gone, or it is cancelled.

        Cancelled in the middle of a command, it still says, for a second at most, that its outcome is not known.
        """
        _log.info("console", hint="line commands are read from standard input; `help` lists them")
        try:
            await self._answer_all()
        except OSError as fault:
            _log.warning("the console ended; this runner goes on", why=fault.strerror or type(fault).__name__)
        except Exception as error:  # noqa: BLE001 - a fault in this adapter ends it, and never its voter
            _log.error("the console failed; this runner goes on", error=type(error).__name__)
        else:
            _log.info("the console's input ended; this runner goes on")

    async def _answer_all(self) -> None:
        splitter = LineSplitter()
        while chunk := await self._ends.read():
            for line in splitter.feed(chunk):
                if self._is_held:
                    return
                if not line.is_blank:
                    await self._answer(line)
        if (half := splitter.end()) is not None and not self._is_held:
            await self._answer(half)

    async def _answer(self, line: Line) -> None:
        order = self._console.order(line)
        if isinstance(order, Order):
            try:
                answer = await self._carried_out(order)
            except asyncio.CancelledError:
                with suppress(OSError, TimeoutError):
                    async with asyncio.timeout(LAST_WORDS_S):
                        broken_off = self._console.broken_off(order, "This voter stopped before it was answered.")
                        await self._ends.write(self._written(line, broken_off))
                raise
        else:
            answer = order
        await self._say(line, answer)

    async def _carried_out(self, order: Order) -> Answer:
        try:
            return await self._console.carry_out(order)
        except Exception as error:  # noqa: BLE001 - as in a listener: a fault in one command must not end the voter
            _log.error("a command of the console failed", command=order.spoken.word.name, error=type(error).__name__)
            return self._console.broken_off(order, "The command failed inside; see this voter's log.")

    async def _say(self, line: Line, answer: Answer) -> None:
        """Write an answer, however long that takes; a reader that takes none holds up only this console."""
        waits = asyncio.get_running_loop().call_later(SLOW_S, _waits, line, answer)
        try:
            await self._ends.write(self._written(line, answer))
        except OSError:
            _log.warning(
                "an answer of the console was not taken",
                line=line.number,
                command=answer.command,
                certainty=answer.certainty,
                key=answer.key,
            )
            raise
        finally:
            waits.cancel()

    def _written(self, line: Line, answer: Answer) -> bytes:
        if is_json(line.raw):
            return msgspec.json.encode(answer) + b"\n"
        told = text(answer)
        if self._ends.is_terminal:
            return (told + "\n").encode(errors="backslashreplace")
        return msgspec.json.encode(msgspec.structs.replace(answer, text=told)) + b"\n"


def _waits(line: Line, answer: Answer) -> None:
    _log.warning("nobody reads the console's answers; it waits", line=line.number, key=answer.key)
