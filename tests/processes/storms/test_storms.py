"""Short storms over real processes; `make storm` runs long ones. The seed is printed, and taken from STORM_SEED."""

import os
import secrets

import pytest

from tests.processes.storms.network import Unavailable
from tests.processes.storms.storm import storm

pytestmark = [pytest.mark.processes, pytest.mark.timeout(150)]
SECONDS = 3.5


async def survived(network: str) -> None:
    seed = int(os.environ.get("STORM_SEED") or secrets.randbelow(1 << 32))
    print(f"STORM_SEED={seed}")  # noqa: T201 - the seed of a failure
    report = await storm(network, seed, SECONDS)
    print(report)  # noqa: T201 - what it was
    assert not report.violations, "\n".join(report.violations)


async def test_a_storm_of_kills_and_stops_loses_and_doubles_nothing() -> None:
    await survived("loopback")


async def test_a_storm_with_partitions_through_a_proxy_loses_and_doubles_nothing() -> None:
    await survived("proxy")


async def test_a_storm_with_partitions_of_real_networks_loses_and_doubles_nothing() -> None:
    try:
        await survived("namespaces")
    except Unavailable as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to do this: {missing}")
        pytest.skip(str(missing))
