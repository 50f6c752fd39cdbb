"""How much one operation may name: each voter applies it in one piece, and is deaf meanwhile."""

from typing import Final

MAX_SCHEDULES: Final = 1_000
MAX_POOLS: Final = 100
MAX_CALENDARS: Final = 100
MAX_ATTESTED: Final = 1_000
MAX_WAITING: Final = 1_000
"""Runs of one schedule in line, side by side, or caught up at once."""
MAX_WINDOW_S: Final = 30 * 86_400
MAX_JITTER_MS: Final = 86_400_000
