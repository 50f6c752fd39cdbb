"""The receiving end of a relay judges the caller anew and never passes a request on."""

import pytest

from cluster.problem import Problem
from cluster.relay import RelayRequest
from runner.management.routes import relay_handler
from tests.unit.management.fakes import BEARERS, KEY, cluster, decoded

GOOD = b"Bearer operator-token-0001"


async def relayed(method: str, path: str, caller: bytes = GOOD, body: bytes = b"", owner: str = "node1") -> int:
    voter, _ = cluster(owner)
    request = RelayRequest(method, path, caller, body, KEY)
    try:
        return (await relay_handler(voter.management, BEARERS)(request)).status
    except Problem as problem:
        return problem.status


@pytest.mark.parametrize(
    "caller", [b"", b"Bearer", b"Bearer nobody-s-token-00", b"Bearer \xe9", b"operator-token-0001"]
)
async def test_a_wrong_caller_is_401_whatever_the_sending_voter_thought(caller: bytes) -> None:
    for path in ("/v1/runs", "/v1/nothing"):
        assert await relayed("GET", path, caller) == 401


@pytest.mark.parametrize(
    ("method", "path", "caller", "status"),
    [
        ("GET", "/v1/runs", GOOD, 200),
        ("GET", "/v1/runs?limit=3&state=Succeeded", GOOD, 200),
        ("GET", "/v1/runs?limit=3&limit=4", GOOD, 400),
        ("GET", "/v1/runs?limit", GOOD, 400),
        ("GET", "/v1/runs?" + "&".join(f"a{n}=1" for n in range(20)), GOOD, 400),
        ("GET", "/v1/runs/absent", GOOD, 404),
        ("GET", "/v1/status", GOOD, 404),
        ("GET", "//[", GOOD, 404),
        ("DELETE", "/v1/runs", GOOD, 405),
        ("POST", "/v1/attest", GOOD, 403),
        ("GET", "/v1/runs", b"Bearer worker-token-000004", 403),
        ("POST", "/v1/cancel", b"Bearer recovery-token-0003", 403),
    ],
)
async def test_path_method_and_role_are_judged_as_a_listener_would(
    method: str, path: str, caller: bytes, status: int
) -> None:
    assert await relayed(method, path, caller) == status


async def test_a_refused_role_is_told_which_roles_may() -> None:
    voter, _ = cluster()
    with pytest.raises(Problem, match="it needs: operator") as caught:
        await relay_handler(voter.management, BEARERS)(
            RelayRequest("POST", "/v1/cancel", b"Bearer recovery-token-0003")
        )
    assert "'recovery' may not use this path; it needs: operator." in caught.value.detail


async def test_a_voter_that_does_not_own_answers_503_not_done() -> None:
    voter, other = cluster("node2")
    with pytest.raises(Problem) as caught:
        await relay_handler(voter.management, BEARERS)(RelayRequest("GET", "/v1/runs", GOOD))
    assert (caught.value.status, caught.value.certainty) == (503, "not_done")
    assert voter.relay.sent == []
    reply = await relay_handler(other.management, BEARERS)(RelayRequest("GET", "/v1/runs", GOOD))
    assert decoded(reply) == []
