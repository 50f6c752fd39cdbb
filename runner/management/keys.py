"""Operation keys: what a client mints so that a repeat is known as one (WIRE: Idempotency-Key)."""

import hashlib
from typing import Final
from uuid import UUID

from cluster.listener import Request
from cluster.ports import Randomness
from cluster.problem import Problem
from runner.checkpoint.operations import KEPT_MS
from runner.checkpoint.ops import Operation

# Clocks of clients differ. A key counts as old this much before its result is forgotten, and as not minted yet this
# much after now: so no key is ever both forgotten and accepted.
SKEW_MS: Final = 3_600_000


def operation_of(request: Request, now_ms: int) -> Operation:
    """Return who asks for a change, under which key, with which body.

    The digest covers path, query and body: the same key on another path is another request.

    Raises:
        Problem: 400: no key, not a UUIDv7, or one whose result may be forgotten already.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        raise _refused("A changing request needs the header Idempotency-Key with a fresh UUIDv7.")
    minted_ms = _minted_ms(key)
    if minted_ms is None:
        raise _refused("Idempotency-Key is not a UUIDv7 in lower-case hex with hyphens; mint a fresh one.")
    if minted_ms < now_ms - KEPT_MS + SKEW_MS:
        raise _refused(
            "Idempotency-Key is nearly 7 days old or older, and its first result may be forgotten; "
            "look whether the change was made, then use a fresh key."
        )
    if minted_ms > now_ms + SKEW_MS:
        raise _refused("Idempotency-Key was minted over an hour from now; correct this host's or the client's clock.")
    covered = "\n".join([request.method, request.path, *(f"{k}={v}" for k, v in sorted(request.query.items())), ""])
    digest = hashlib.sha256(covered.encode() + request.body).hexdigest()
    return Operation(principal=request.principal.name, key=key, digest=digest)


def uuid7(now_ms: int, randomness: Randomness) -> str:
    """Return a UUIDv7: milliseconds since the epoch, then 74 drawn bits. Source: RFC 9562, 5.7."""
    high, low = randomness.getrandbits(12), randomness.getrandbits(62)
    return str(UUID(int=(now_ms & (1 << 48) - 1) << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low))


def _minted_ms(key: str) -> int | None:
    try:
        parsed = UUID(key)
    except ValueError:
        return None
    canonical = str(parsed) == key and parsed.version == 7  # noqa: PLR2004 - the version that carries its instant
    return parsed.int >> 80 if canonical else None


def _refused(detail: str) -> Problem:
    return Problem(400, "Bad Request", detail, "not_done")
