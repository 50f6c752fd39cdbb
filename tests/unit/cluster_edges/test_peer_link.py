"""A link whose socket fails in odd places: it ends, and nothing else does."""

import asyncio
from typing import Any
from unittest.mock import create_autospec

import aiohttp
import pytest

from cluster.peer_link import PeerLink
from tests.unit.cluster_edges.fake_voter import hello_of


def breaking_socket(fault: Exception) -> Any:
    """Raises when it is read, as aiohttp does when a ping waits before the peer's end of the connection."""
    socket = create_autospec(aiohttp.ClientWebSocketResponse, instance=True)
    socket.receive.side_effect = fault
    socket.get_extra_info.return_value = None
    return socket


FAULTS = [
    aiohttp.ClientConnectionResetError("Cannot write to closing transport"),
    aiohttp.ClientError("as a class"),
    ConnectionResetError(),
    BrokenPipeError(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_a_socket_that_fails_while_it_is_read_ends_its_link_only(fault: Exception) -> None:
    link = PeerLink(breaking_socket(fault), hello=hello_of("node2"), session="s", queue_bytes=1000)
    async with asyncio.timeout(20):
        assert await link.run(lambda _link, _frame: None) == "the connection broke"
