"""How each system is asked over HTTP to do the same thing, and what its yes looks like."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Protocol

import msgspec

from bench import wire
from bench.cells import CompareAndSet, encode


class Dialect(Protocol):
    """One system's words."""

    def request(self, ops: Sequence[CompareAndSet]) -> bytes:
        """Return the request that carries these creations."""
        ...

    def accepted(self, answer: wire.Answer, ops: int) -> bool:
        """Return whether all of them were carried out."""
        ...


class Fencepost:
    """`bench.voter`'s listener: the command itself as the body, one byte an op as the answer."""

    def __init__(self, token: str) -> None:
        """Keep the bearer that each request carries."""
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/msgpack"}

    def request(self, ops: Sequence[CompareAndSet]) -> bytes:
        """Return the request that carries these creations."""
        return wire.request("/bench/cells", encode(ops), self._headers)

    def accepted(self, answer: wire.Answer, ops: int) -> bool:
        """Return whether all of them were carried out."""
        return answer.body == b"\x01" * ops


class Etcd:
    """etcd's JSON gateway: one transaction that compares each key's creation with none, and puts."""

    def request(self, ops: Sequence[CompareAndSet]) -> bytes:
        """Return the request that carries these creations."""
        keys = [b64encode(op.key).decode() for op in ops]
        compare = [{"key": key, "target": "CREATE", "create_revision": "0"} for key in keys]
        put = [
            {"request_put": {"key": key, "value": b64encode(op.value).decode()}}
            for key, op in zip(keys, ops, strict=True)
        ]
        body = msgspec.json.encode({"compare": compare, "success": put})
        return wire.request("/v3/kv/txn", body, {"Content-Type": "application/json"})

    def accepted(self, answer: wire.Answer, ops: int) -> bool:
        """Return whether all of them were carried out, which etcd does or leaves as one."""
        del ops
        return b'"succeeded":true' in answer.body
