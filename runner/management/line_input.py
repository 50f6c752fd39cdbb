"""From bytes as they arrive to numbered lines, in bounded memory; pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

MAX_LINE_BYTES: Final = 1 << 20
"""As long as a request body may be."""


class Trouble(Enum):
    """Why a line cannot be acted on before anybody reads it."""

    TOO_LONG = "too_long"
    CUT_OFF = "cut_off"


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        number: counted from 1, blank lines included.
        raw: its bytes without the line end; of a line in trouble the beginning that was kept.
    """

    number: int
    raw: bytes
    trouble: Trouble | None = None

    @property
    def is_blank(self) -> bool:
        """Tell whether there is nothing on it; such a line asks nothing."""
        return self.trouble is None and not self.raw.strip(b" \t\r")


class LineSplitter:
    """Parts a stream at its newlines; how the stream was cut into chunks makes no difference."""

    def __init__(self, most: int = MAX_LINE_BYTES) -> None:
        """Begin before the first byte; of a line longer than `most` bytes only so many are kept."""
        self._most = most
        self._kept = bytearray()
        self._is_over = False
        self._number = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that a chunk completes; take all of them before the next chunk."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._keep(piece)
            yield self._line(Trouble.TOO_LONG if self._is_over else None)
        self._keep(rest)

    def end(self) -> Line | None:
        """Return what stands without a line end when the input is over, or None.

        It may be half of what was meant, so it is never a command.
        """
        return self._line(Trouble.CUT_OFF) if self._kept else None

    def _keep(self, piece: bytes) -> None:
        room = self._most - len(self._kept)
        self._is_over = self._is_over or len(piece) > room
        self._kept += piece[:room]

    def _line(self, trouble: Trouble | None) -> Line:
        self._number += 1
        raw = bytes(self._kept)
        self._kept.clear()
        self._is_over = False
        return Line(self._number, raw.removesuffix(b"\r") if trouble is None else raw, trouble)
