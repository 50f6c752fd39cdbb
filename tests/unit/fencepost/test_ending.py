"""Stopping is asked for once; asked for twice, the process ends at once, whatever it is doing."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PROGRAM = """
import asyncio
from fencepost.ending import on_signal

async def serve():
    asked = asyncio.Event()
    def stop():
        print("stopping", flush=True)
        asked.set()
    on_signal(stop)
    print("ready", flush=True)
    await asked.wait()
    {then}

asyncio.run(serve())
print("stopped", flush=True)
"""


@contextmanager
def process(then: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", PROGRAM.format(then=then)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as found:
        try:
            yield found
        finally:
            found.kill()


def line(found: subprocess.Popen[str]) -> str:
    assert found.stdout is not None
    return found.stdout.readline().strip()


@pytest.mark.parametrize(
    ("then", "second"),
    [("await asyncio.sleep(60)", signal.SIGINT), ("while True: pass", signal.SIGTERM)],
    ids=["waiting for work to end", "wedged, so that no event is handled any more"],
)
def test_the_second_signal_is_a_crash(then: str, second: signal.Signals) -> None:
    with process(then) as found:
        assert line(found) == "ready"
        found.send_signal(signal.SIGTERM)
        assert line(found) == "stopping"
        found.send_signal(second)
        rest, said = found.communicate(timeout=20)
        assert (found.returncode, rest) == (1, ""), "nothing is tidied up"
        assert json.loads(said)["why"] == f"{second.name} while stopping"


def test_after_one_signal_it_ends_by_itself() -> None:
    with process("pass") as found:
        assert line(found) == "ready"
        found.send_signal(signal.SIGINT)
        rest, said = found.communicate(timeout=20)
        assert (found.returncode, rest, said) == (0, "stopping\nstopped\n", "")
