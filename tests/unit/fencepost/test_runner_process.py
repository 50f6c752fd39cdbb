import asyncio
from collections.abc import Iterable

from structlog.testing import capture_logs

from cluster.ports import PeerStatus, Status
from fencepost.runner_process import LEADERLESS_S, until_leader

VOTERS = (PeerStatus("node1", True, 0), PeerStatus("node2", True, 0), PeerStatus("node3", False, 0))


class FakeVoter:
    """Sees a leader once its looks are used up."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def status(self) -> Status:
        self.looks -= 1
        return Status("node1", "candidate", 1, None if self.looks >= 0 else "node2", 0, 0, 0, "", VOTERS)


class FakeClock:
    def __init__(self, instants: Iterable[float]) -> None:
        self.instants = iter(instants)

    def mono_s(self) -> float:
        return next(self.instants, 1_000.0)

    def wall_ms(self) -> int:
        return 0


async def said(looks: int, clock: FakeClock) -> list[dict[str, object]]:
    with capture_logs() as logs:
        await until_leader(FakeVoter(looks), clock, asyncio.Event())
    return [dict(each) for each in logs]


async def test_a_voter_that_sees_no_leader_says_once_whom_it_lacks() -> None:
    (line,) = await said(4, FakeClock([0.0, 1.0, LEADERLESS_S]))
    assert (line["event"], line["log_level"]) == ("no leader seen", "warning")
    assert (line["connected"], line["not_connected"]) == (["node2"], ["node3"])
    assert "first election of a new cluster needs all its voters" in str(line["hint"])


async def test_a_leader_that_is_seen_soon_is_no_reason_for_a_line() -> None:
    assert await said(2, FakeClock([0.0, 1.0, LEADERLESS_S - 0.1])) == []


async def test_a_signal_ends_the_wait() -> None:
    stopping = asyncio.Event()
    stopping.set()
    await until_leader(FakeVoter(1_000_000), FakeClock([]), stopping)
