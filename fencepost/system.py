"""This host's clocks and logs, for the two composition roots."""

import sys
import time
from typing import Final

import structlog

# Counts suspended time too where the system offers it, so that a host that slept knows that time has passed.
_BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Both clocks of this host: implements the Clock of each package."""

    def mono_s(self) -> float:
        """Return seconds since the host started, time spent suspended included."""
        return time.clock_gettime(_BOOT_CLOCK)

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch, UTC, as this host believes."""
        return time.time_ns() // 1_000_000


def log_to_stderr(**same: str) -> None:
    """Write every log event as one JSON line to stderr, with the words that are the same on each."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(**same)
