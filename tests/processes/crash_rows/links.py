"""Proxies between voters, in a thread of the test: any of them can be cut off from the others and mended."""

import asyncio
import re
import threading
from itertools import permutations
from pathlib import Path

from tests.processes.cluster import HANG_S, Cluster
from tests.processes.storms.proxy import Proxy


class Links:
    """All the ways from one voter to another, each of which goes through a proxy of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._proxies: dict[tuple[str, str], Proxy] = {}
        ports = {name: cluster.base + number for number, name in enumerate(cluster.voters, 1)}
        for number, (dialer, target) in enumerate(permutations(cluster.voters, 2), len(ports) + 1):
            proxy = Proxy(dialer, target, ("127.0.0.1", ports[target]), cluster.base + number)
            self._proxies[dialer, target] = proxy
            _rewrite(cluster.dir / f"{dialer}.toml", target, ports[target], proxy.port)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(HANG_S)

    def cut(self, name: str) -> None:
        """Cut a voter off from all others."""
        for proxy in self._of(name):
            self._loop.call_soon_threadsafe(proxy.cut)

    def mute(self, speaker: str, listener: str) -> None:
        """Keep all that one voter says to another, until mended."""
        for ends, proxy in self._proxies.items():
            if {speaker, listener} == set(ends):
                self._loop.call_soon_threadsafe(proxy.hold, speaker)

    def mend(self, name: str) -> None:
        """Let a voter reach all others again."""
        for proxy in self._of(name):
            self._loop.call_soon_threadsafe(proxy.mend)

    def close(self) -> None:
        """Cut all, and end the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        self._loop.close()

    def _of(self, name: str) -> list[Proxy]:
        return [proxy for ends, proxy in self._proxies.items() if name in ends]

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(proxy.run()) for proxy in self._proxies.values()]
            self._ready.set()
            await self._stop.wait()
            for task in tasks:
                task.cancel()


def _rewrite(config: Path, target: str, port: int, instead: int) -> None:
    """Let one voter dial another through a proxy."""
    text = config.read_text()
    line = f'{target} = "http://127.0.0.1:{port}"'
    assert line in text
    config.write_text(re.sub(re.escape(line), f'{target} = "http://127.0.0.1:{instead}"', text))
