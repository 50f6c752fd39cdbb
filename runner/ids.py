"""Names that are computed, not drawn: the same wherever and whenever they are derived (WIRE: Ids)."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Final

LATEST_INSTANT_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: no instant after it can be written down, so none is ever stored."""
EARLIEST_INSTANT_MS: Final = -62_135_596_800_000
"""0001-01-01T00:00:00Z."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HASH_BITS: Final = 74


def run_id(cluster_id: str, schedule_id: str, occurrence: str, instant_ms: int) -> str:
    """Return the run's id: a time-ordered UUID (version 8) of its instant and a hash of its occurrence.

    Args:
        cluster_id: lower-case UUID of the cluster.
        schedule_id: lower-case UUID of the schedule.
        occurrence: what `occurrence_text` or `manual_occurrence` returned.
        instant_ms: `scheduled_for`, or the trigger instant of a manual run, milliseconds since the epoch, UTC,
            0 <= instant_ms < 2**48.

    Source: RFC 9562, section 5.8.
    """
    digest = hashlib.sha256(f"{cluster_id}{schedule_id}{occurrence}".encode()).digest()
    drawn = int.from_bytes(digest, "big") >> (256 - _HASH_BITS)
    high, low = drawn >> 62, drawn & ((1 << 62) - 1)
    return str(uuid.UUID(int=instant_ms << 80 | 0x8 << 76 | high << 64 | 0b10 << 62 | low))


def occurrence_text(scheduled_for_ms: int) -> str:
    """Return a planned occurrence as it enters hashes: `YYYY-MM-DDTHH:MM:SSZ`, `.ffffff` only when not whole."""
    return _text(scheduled_for_ms, digits=6)


def manual_occurrence(trigger_id: str) -> str:
    """Return a manual run's occurrence; it can never equal a planned one."""
    return f"manual/{trigger_id}"


def instant_text(ms: int) -> str:
    """Return an instant for people and JSON: `YYYY-MM-DDTHH:MM:SSZ`, `.mmm` only when not whole.

    Raises:
        OverflowError: ms lies outside the years 1 to 9999 (no instant in the checkpoint does).
    """
    return _text(ms, digits=3)


def idempotency_key(schedule_id: str, occurrence: str) -> str:
    """Return what a tenant de-duplicates on: the same on every attempt, worker, epoch and generation (DESIGN 6)."""
    return hashlib.sha256(f"{schedule_id}{occurrence}".encode()).hexdigest()


def fencing_token(generation: int, counter: int) -> int:
    """Return a permit's token; it grows with every permit, and a restored cluster's outgrow all older ones."""
    assert 0 <= counter < 1 << 40
    return generation << 40 | counter


def _text(ms: int, *, digits: int) -> str:
    whole_s, rest_ms = divmod(ms, 1000)
    text = (_EPOCH + timedelta(seconds=whole_s)).replace(tzinfo=None).isoformat()
    fraction = f".{rest_ms:03d}".ljust(digits + 1, "0") if rest_ms else ""
    return f"{text}{fraction}Z"
