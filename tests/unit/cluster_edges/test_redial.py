"""What a fresh connection says about who is left at an address."""

import asyncio
import socket

import pytest

from cluster import redial
from tests.unit.cluster_edges.fake_voter import FakeVoter, serving


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_an_address_where_nobody_listens_refuses() -> None:
    assert await redial.refused(f"http://127.0.0.1:{free_port()}/any/path", 5.0)


async def test_who_accepts_is_there_even_if_it_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not await redial.refused(f"http://127.0.0.1:{silent.getsockname()[1]}", 5.0)


async def test_a_name_refuses_only_if_each_of_its_addresses_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", free_port()))]

        async def two(*_: object, **__: object) -> object:
            return [*found, (socket.AF_INET, socket.SOCK_STREAM, 6, "", silent.getsockname())]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
        assert not await redial.refused("http://voter.example:9", 5.0)


async def test_silence_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", hangs)
    assert not await redial.refused("http://127.0.0.1:9", 0.02)


async def test_either_side_of_a_pair_learns_that_the_other_is_gone() -> None:
    for gone, left in (("node1", "node2"), ("node2", "node1")):
        ports = {name: free_port() for name in (gone, left)}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        survivor, victim = FakeVoter(left), FakeVoter(gone)
        async with serving(survivor, urls=urls, port=ports[left]):
            async with serving(victim, urls=urls, port=ports[gone]):
                await survivor.seen("connected")
            async with asyncio.timeout(20):
                assert await survivor.refusals.get() == gone


async def test_a_link_that_broke_between_two_that_live_refuses_nobody() -> None:
    ports = {name: free_port() for name in ("node1", "node2")}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    one, two = FakeVoter("node1"), FakeVoter("node2")
    async with (
        serving(one, urls=urls, port=ports["node1"]),
        serving(two, urls=urls, port=ports["node2"]),
    ):
        for _ in range(3):
            await one.seen("connected")
            await two.seen("connected")
            one.links[-1].close("a test")
            await two.seen("received")
            await one.seen("disconnected")
            await two.seen("disconnected")
        await one.seen("connected")
        assert one.refusals.empty()
        assert two.refusals.empty()
