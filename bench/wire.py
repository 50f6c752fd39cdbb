"""Just enough HTTP/1.1 for a client that is not the bottleneck: requests as bytes, answers from a buffer."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

_BLANK: Final = b"\r\n\r\n"
_CHUNK_BYTES: Final = 64 << 10


class Answer(NamedTuple):
    """One whole answer, and what came behind it."""

    status: int
    body: bytes
    rest: bytes


class Torn(Exception):
    """The connection ended before the answer did."""


def request(path: str, body: bytes, headers: Mapping[str, str], method: str = "POST") -> bytes:
    """Return one request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("ascii") + _BLANK + body


def answer(buffer: bytes) -> Answer | None:
    """Return the first answer in a buffer, or None while it is not whole."""
    head, blank, rest = buffer.partition(_BLANK)
    if not blank:
        return None
    status_line, _, fields = head.partition(b"\r\n")
    status, fields = int(status_line.split(b" ", 2)[1]), fields.lower()
    if b"transfer-encoding: chunked" in fields:
        return _chunked(status, rest)
    size = int(fields.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return Answer(status, rest[:size], rest[size:]) if len(rest) >= size else None


async def ask(port: int, raw: bytes) -> Answer:
    """Send one request over a connection of its own to a port on loopback.

    Raises:
        OSError: no connection.
        Torn: no whole answer.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        buffer = b""
        while piece := await reader.read(_CHUNK_BYTES):
            buffer += piece
            if found := answer(buffer):
                return found
    finally:
        writer.close()
    raise Torn(f"{len(buffer)} bytes of an answer from port {port}")


def _chunked(status: int, rest: bytes) -> Answer | None:
    body = b""
    while True:
        size_line, end, rest = rest.partition(b"\r\n")
        if not end:
            return None
        size = int(size_line, 16)
        if len(rest) < size + 2:
            return None
        body, rest = body + rest[:size], rest[size + 2 :]
        if size == 0:
            return Answer(status, body, rest)
