"""Operation keys: a management change happens once, and its repeat hears what the first one heard."""

from collections.abc import Callable
from typing import Final

import msgspec

from runner.checkpoint import queries
from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import ForgetOperations, Operation
from runner.checkpoint.results import OpResult

KEPT_MS: Final = 7 * 24 * 3_600_000
"""How long a result is kept; an older key is refused, since its result may be gone."""
MAX_KEY_CHARS: Final = 64

_UUID_CHARS: Final = 36
_UUID_VERSION_AT: Final = 14
_HEX: Final = frozenset("0123456789abcdef")

_encoder = msgspec.msgpack.Encoder()


def once(commit: Commit, operation: Operation, change: Callable[[], OpResult]) -> OpResult:
    """Make a change under its operation key, or repeat what was answered; refusals are kept like everything else."""
    kept = queries.kept_operation(commit.db, operation.principal, operation.key)
    if kept is not None:
        digest, result = kept
        if digest != operation.digest:
            return OpResult("refused", "key_reused")
        return msgspec.structs.replace(result, again=True, changed=())
    if len(operation.key) > MAX_KEY_CHARS:
        return OpResult("refused", "bad_key")
    minted_ms = minted(operation.key, otherwise_ms=commit.now_ms)
    if minted_ms < commit.now_ms - KEPT_MS:
        return OpResult("refused", "key_too_old")
    result = change()
    # A client's clock may run ahead: a key is kept until it would be refused as too old by its own instant.
    row = (operation.principal, operation.key, operation.digest, _encoder.encode(result))
    commit.db.execute("INSERT INTO operations VALUES (?, ?, ?, ?, ?)", (*row, max(commit.now_ms, minted_ms)))
    return result


def minted(key: str, *, otherwise_ms: int) -> int:
    """Return the instant inside a UUIDv7, milliseconds since the epoch; listeners let no other key through."""
    if len(key) != _UUID_CHARS or key[_UUID_VERSION_AT] != "7":
        return otherwise_ms
    stamp = key[:8] + key[9:13]
    return int(stamp, 16) if set(stamp) <= _HEX else otherwise_ms


def forget(commit: Commit, op: ForgetOperations) -> OpResult:
    """Drop kept results that are past their retention, oldest first; never one whose key is still accepted."""
    before_ms = min(op.before_ms, commit.now_ms - KEPT_MS)
    oldest = (
        "SELECT principal, key FROM operations WHERE kept_from_ms < ? ORDER BY kept_from_ms, principal, key LIMIT ?"
    )
    rows = commit.db.execute(oldest, (before_ms, max(op.limit, 0))).fetchall()
    commit.db.executemany("DELETE FROM operations WHERE principal = ? AND key = ?", rows)
    for principal, key in rows:
        commit.note(f"operation:{principal}/{key}")
    return OpResult("done", detail={"forgotten": len(rows)})
