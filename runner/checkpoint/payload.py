"""Frozen targets: their one spelling in bytes, and the digest that names it."""

import hashlib
from typing import Final

import msgspec

from worker.protocol import CommandTarget

MAX_TARGET_BYTES: Final = 64 * 1024

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
