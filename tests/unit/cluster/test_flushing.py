import asyncio
import threading
from pathlib import Path

import pytest

from cluster.flushing import FAST_S, SLOW_S, Flusher, WalFlush
from cluster.outcome import FailStop
from tests.unit.cluster.fakes import ManualClock


async def threads_of(flusher: Flusher, clock: ManualClock, took_s: float, times: int) -> set[bool]:
    """Flush so often, each taking so long; return whether that was in the loop's thread."""
    seen = set()

    def flush() -> None:
        clock.mono += took_s
        seen.add(threading.current_thread() is threading.main_thread())

    for _ in range(times):
        await flusher.run(flush)
    return seen


async def test_a_fast_disk_is_flushed_in_the_loop() -> None:
    flusher = Flusher(clock := ManualClock())
    assert await threads_of(flusher, clock, SLOW_S / 2, 100) == {True}
    await flusher.close()


async def test_a_slow_disk_is_flushed_in_a_thread_and_one_that_recovers_in_the_loop_again() -> None:
    flusher = Flusher(clock := ManualClock())
    await threads_of(flusher, clock, 3 * SLOW_S, 10)
    assert await threads_of(flusher, clock, 3 * SLOW_S, 10) == {False}
    assert await threads_of(flusher, clock, (FAST_S + SLOW_S) / 2, 100) == {False}, "it does not go to and fro"
    await threads_of(flusher, clock, FAST_S / 10, 100)
    assert await threads_of(flusher, clock, FAST_S / 10, 10) == {True}
    await flusher.close()


async def test_one_slow_flush_is_no_slow_disk() -> None:
    flusher = Flusher(clock := ManualClock())
    await threads_of(flusher, clock, SLOW_S * 5, 1)
    assert await threads_of(flusher, clock, SLOW_S / 10, 10) == {True}
    await flusher.close()


async def test_the_loop_turns_while_a_thread_flushes_and_close_waits_for_it() -> None:
    flusher, began, may_end = Flusher(ManualClock()), threading.Event(), threading.Event()
    ended = []
    flusher.off_loop = True

    def flush() -> None:
        began.set()
        may_end.wait()
        ended.append(True)

    flushing = asyncio.ensure_future(flusher.run(flush))
    await asyncio.to_thread(began.wait)
    flushing.cancel()  # as at the end of a process: the tick is cut short, the thread is not
    closing = asyncio.ensure_future(flusher.close())
    await asyncio.sleep(0)
    assert not ended
    assert not closing.done()
    may_end.set()
    await closing
    assert ended
    with pytest.raises(asyncio.CancelledError):
        await flushing


@pytest.mark.parametrize("off_loop", [False, True])
async def test_a_flush_that_fails_reaches_the_loop(off_loop: bool) -> None:
    flusher = Flusher(ManualClock())
    flusher.off_loop = off_loop

    def flush() -> None:
        raise FailStop("the disk is gone")

    with pytest.raises(FailStop, match="the disk is gone"):
        await flusher.run(flush)
    await flusher.close()


def test_a_wal_is_flushed_by_name_only_once_it_is_needed(tmp_path: Path) -> None:
    flush = WalFlush(tmp_path / "raft.db")
    with pytest.raises(FileNotFoundError):
        flush()
    (tmp_path / "raft.db-wal").write_bytes(b"frames")
    flush()
    flush.close()
    flush.close()
