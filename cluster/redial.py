"""Whether anybody is left at an address: a connection that broke says that a link is gone, not that its voter is.

Only a kernel that refuses a fresh connection says that no process listens there. Silence, a reset or a timeout may be
the network, and a proxy in front of a voter accepts whatever became of it; then Raft's timeout has to do.
"""

import asyncio
import socket
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}


async def refused(url: str, within_s: float) -> bool:
    """Dial the host of a base URL afresh and hang up; return whether each of its addresses refused.

    Blocks: for at most `within_s` seconds.
    """
    parts = urlsplit(url)
    port = parts.port or _PORTS[parts.scheme]
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within_s):
            found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
            return all([await _refuses(family, address) for family, _, _, _, address in found])
    except OSError:  # TimeoutError is one: nobody refused
        return False


async def _refuses(family: int, address: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as fresh:
        fresh.settimeout(0)
        try:
            await asyncio.get_running_loop().sock_connect(fresh, address)
        except ConnectionRefusedError:
            return True
        return False
