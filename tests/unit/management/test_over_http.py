"""The routes behind the real listener: paths, queries, keys and bearers as they come over a socket."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from cluster.listener import Listener, bound
from runner.checkpoint.ops import CancelOp
from runner.management.bodies import MAX_BODY_BYTES
from runner.management.routes import management_routes
from tests.unit.management.fakes import BEARERS, KEY, NOW_MS, Voter, cluster, put_run, put_schedule, spec

OPERATOR = {"Authorization": "Bearer operator-token-0001"}


@pytest.fixture
async def served() -> AsyncIterator[tuple[Voter, str]]:
    voter, _ = cluster()
    routes = management_routes(voter.management)
    with bound("management", "127.0.0.1", 0) as socket:
        listener = Listener(
            name="management", socket=socket, bearers=BEARERS, routes=routes, max_body_bytes=MAX_BODY_BYTES
        )
        port = await listener.start()
        yield voter, f"http://127.0.0.1:{port}"
        await listener.close()


async def call(method: str, url: str, **more: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.request(method, url, **more) as response:
        return response.status, await response.json(content_type=None)


async def test_reads_over_a_socket(served: tuple[Voter, str]) -> None:
    voter, url = served
    put_schedule(voter.db, spec())
    put_run(voter.db, "r1", spec(), NOW_MS)
    status, rows = await call("GET", f"{url}/v1/runs?schedule=demo%2Ftick&limit=5", headers=OPERATOR)
    assert (status, [row["run_id"] for row in rows]) == (200, ["r1"])
    status, shown = await call("GET", f"{url}/v1/runs/r1", headers=OPERATOR)
    assert (status, shown["state"]) == (200, "Succeeded")
    assert (await call("GET", f"{url}/v1/runs/..%2F..", headers=OPERATOR))[0] == 404


async def test_changes_over_a_socket(served: tuple[Voter, str]) -> None:
    voter, url = served
    keyed = OPERATOR | {"Idempotency-Key": KEY}
    status, answer = await call("POST", f"{url}/v1/cancel", headers=keyed, json={"run_id": "r1"})
    assert (status, answer) == (200, {"again": False})
    assert isinstance(voter.owner.ops[0], CancelOp)
    status, problem = await call("POST", f"{url}/v1/cancel", headers=OPERATOR, json={"run_id": "r1"})
    assert (status, problem["certainty"]) == (400, "not_done")
    status, problem = await call(
        "POST", f"{url}/v1/cancel", headers=keyed, data=b"x", skip_auto_headers=["Content-Type"]
    )
    assert status in {400, 415}
    twice = [*keyed.items(), ("Idempotency-Key", KEY)]
    assert (await call("POST", f"{url}/v1/cancel", headers=twice, json={"run_id": "r1"}))[0] == 400
    assert len(voter.owner.ops) == 1


@pytest.mark.parametrize(("token", "status"), [("nobody-s-token-0001", 401), ("worker-token-000004", 403)])
async def test_other_credentials_get_nothing_anywhere(served: tuple[Voter, str], token: str, status: int) -> None:
    voter, url = served
    for route in management_routes(voter.management):
        path = route.path.replace("{id}", "r1")
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": KEY}
        assert (await call(route.method, url + path, headers=headers))[0] == status
    assert voter.owner.ops == []
