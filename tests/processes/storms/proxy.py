"""A TCP proxy in the test's own process, from one voter to another, which can hold back either direction or break."""

import asyncio
import contextlib


class Proxy:
    """What one voter dials in order to reach another.

    Attributes:
        port: where it listens.
    """

    def __init__(self, dialer: str, target: str, address: tuple[str, int], port: int) -> None:
        self.port = port
        self._dialer, self._target, self._address = dialer, target, address
        self._flows = {dialer: asyncio.Event(), target: asyncio.Event()}
        self._cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.mend()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", self.port) as server:
            try:
                await server.serve_forever()
            finally:
                self.cut()

    def hold(self, sender: str) -> None:
        """Keep what comes from one of the two, until mended: it then arrives late, and in order."""
        self._flows[sender].clear()

    def cut(self) -> None:
        """Reset all connections; end new ones at once."""
        self._cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        """Let everything through."""
        self._cut = False
        for flow in self._flows.values():
            flow.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._carry(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if self._cut:
                return
            far_reader, far_writer = await asyncio.open_connection(*self._address)
            self._writers.add(far_writer)
            try:
                both = (
                    asyncio.ensure_future(_pump(reader, far_writer, self._flows[self._dialer])),
                    asyncio.ensure_future(_pump(far_reader, writer, self._flows[self._target])),
                )
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in both:
                        pump.cancel()
                    await asyncio.gather(*both, return_exceptions=True)
            finally:
                self._writers.discard(far_writer)
                far_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            await flow.wait()
            writer.write(data)
            await writer.drain()
