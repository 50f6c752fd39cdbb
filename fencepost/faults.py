"""How a command ends: the exit codes (DESIGN 9), and the errors that lead to them."""

import errno
from enum import IntEnum


class Exit(IntEnum):
    """What the shell is told."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNKNOWN = 3
    CHANGES = 10


class Mistake(Exception):
    """What the person gave us cannot be meant so: an argument, a configuration or schedule file. Nothing was done.

    The text is one line: where, which thing, what would be right.
    """


class Failure(Exception):
    """It was refused, or could not be done, and for certain was not done. The text is one line."""


class Unfitting(Failure):
    """A voter refused what was sent because of what it says, not because of how things stand (HTTP 422)."""


class Uncertain(Exception):
    """A change was sent and its reply is lost: it may be done now, later or never; the same key repeats it safely."""

    def __init__(self, key: str, why: str, also: str = "") -> None:
        """Keep what the person must add to the same command to repeat the same change.

        Args:
            also: further options, beside the key.
        """
        super().__init__(why)
        self.key = key
        self.also = also

    def repeat_with(self) -> str:
        """Return the options that make the same command the same change."""
        return f"--key {self.key} {self.also}".rstrip()


class Unwritten(Exception):
    """Standard output took not all of what there was to say. The text is the end of a line."""

    def __init__(self, fault: OSError) -> None:
        """Keep the system's reason."""
        super().__init__(f"the output could not be written: {fault.strerror or type(fault).__name__}")
        self.reader_left = fault.errno == errno.EPIPE
