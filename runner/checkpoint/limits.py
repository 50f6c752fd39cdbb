"""How much one operation may name: each voter applies it in one piece, and is deaf meanwhile."""

from typing import Final

MAX_SCHEDULES: Final = 1_000
MAX_POOLS: Final = 100
MAX_ATTESTED: Final = 1_000
