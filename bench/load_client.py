"""A process of closed-loop clients over keep-alive HTTP: `python -m bench.load_client PORT TOKEN|etcd LOAD`.

Prints what it measured as one line of JSON. The same code asks both systems.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import islice

import msgspec

from bench import ops, wire
from bench.cells import CompareAndSet
from bench.dialects import Dialect, Etcd, Fencepost
from bench.figures import Load, Measured, Window


class Client(asyncio.Protocol):
    """One connection that asks, waits for the answer, and asks again until the window closes."""

    def __init__(self, dialect: Dialect, window: Window, fresh: Iterator[CompareAndSet], size: int) -> None:
        """Keep what to ask and where to count."""
        self._dialect, self._window, self._fresh, self._size = dialect, window, fresh, size
        self._buffer = b""
        self._sent_s = 0.0
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the first time."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Count an answer once it is whole, and go on."""
        self._buffer += data
        answer = wire.answer(self._buffer)
        if answer is None:
            return
        self._buffer = answer.rest
        accepted = self._dialect.accepted(answer, self._size)
        if self._window.answered(self._sent_s, accepted=accepted):
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        del exc
        self.ended.set()

    def _ask(self) -> None:
        raw = self._dialect.request(list(islice(self._fresh, self._size)))
        self._sent_s = time.perf_counter()
        self._transport.write(raw)


async def measure(port: int, dialect: Dialect, load: Load) -> Measured:
    """Run the clients of one load to their end."""
    loop, fresh, window = asyncio.get_running_loop(), ops.fresh(), Window(load)
    clients = [Client(dialect, window, fresh, load.shape.ops) for _ in range(load.shape.clients)]
    for client in clients:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]  # mypy cannot infer a lambda's default
    async with asyncio.timeout(load.warm_s + load.counted_s + 30):
        for client in clients:
            await client.ended.wait()
    return window.measured()


def main(port: str, who: str, load: str) -> None:
    """Measure as the words of the command line say."""
    dialect = Etcd() if who == "etcd" else Fencepost(who)
    measured = asyncio.run(measure(int(port), dialect, msgspec.json.decode(load, type=Load)))
    print(msgspec.json.encode(measured).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
