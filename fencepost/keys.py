"""Operation keys: UUIDs of version 7, one per intended change (WIRE: Idempotency-Key)."""

import uuid
from typing import Final

from fencepost.faults import Mistake
from fencepost.nearest import quoted

RANDOM_BITS: Final = 74

_VERSION: Final = 7
_VARIANT: Final = 0b10


def minted(now_ms: int, drawn: int) -> str:
    """Return a fresh key.

    Args:
        now_ms: wall clock, milliseconds since the epoch, UTC.
        drawn: `RANDOM_BITS` random bits as one integer.
    """
    high, low = drawn >> 62, drawn & (1 << 62) - 1
    return str(uuid.UUID(int=now_ms << 80 | _VERSION << 76 | high << 64 | _VARIANT << 62 | low))


def given(text: str) -> str:
    """Return a key that a person repeats, as it goes on the wire.

    Raises:
        Mistake: it is no UUID of version 7.
    """
    try:
        key = uuid.UUID(text)
    except ValueError:
        key = None
    if key is None or key.version != _VERSION:
        raise Mistake(f"--key {quoted(text)} is not a key: a UUID of version 7, as printed with an unknown outcome")
    return str(key)
