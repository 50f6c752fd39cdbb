"""Raw bytes to a listener, and what came back, for requests that no client library would send."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes


async def send_raw(port: int, request: bytes) -> RawAnswer:
    """Send the bytes, read one answer, hang up; fails loudly when the connection ends without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
    finally:
        writer.close()
    return RawAnswer(int(lines[0].split(" ")[1]), headers, body)


def request_bytes(method: str, path: str, *headers: bytes, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: fencepost", *headers]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
