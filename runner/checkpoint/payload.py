"""Frozen targets: their one spelling in bytes, the digest that names it, and the rows that keep it."""

import hashlib
import sqlite3
from typing import Final

import msgspec

from worker.protocol import CommandTarget

MAX_TARGET_BYTES: Final = 64 * 1024

_UNUSED: Final = (
    "DELETE FROM payloads WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE digest = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM schedules WHERE digest = ?1)"
)

_encoder = msgspec.json.Encoder(order="deterministic")


def target_bytes(target: CommandTarget) -> bytes:
    """Return the target as it is stored: JSON, keys sorted, so that equal targets have equal bytes."""
    return _encoder.encode(target)


def target_digest(target: CommandTarget) -> str:
    """Return lower-case hex sha256 of `target_bytes`: what claims and permits name a target by."""
    return digest_of(target_bytes(target))


def digest_of(target: bytes) -> str:
    """Return the digest of a target that is in its bytes already."""
    return hashlib.sha256(target).hexdigest()


def keep(db: sqlite3.Connection, digest: str, target: bytes) -> None:
    """Store a target's bytes under their digest, once."""
    db.execute("INSERT OR IGNORE INTO payloads VALUES (?, ?)", (digest, target))


def forget_unused(db: sqlite3.Connection, digest: str) -> None:
    """Drop a target that no run and no schedule refers to any more; leave any other."""
    db.execute(_UNUSED, (digest,))
