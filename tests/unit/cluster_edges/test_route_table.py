"""Which route a method and a path mean."""

import pytest

from cluster.problem import Problem
from cluster.route_table import ANY_METHOD, RouteTable

TABLE = RouteTable(
    [
        ("GET", "/v1/runs", "runs"),
        ("GET", "/v1/runs/{id}", "show"),
        ("POST", "/v1/runs/{id}", "change"),
        ("GET", "/v1/runs/latest", "latest"),
        (ANY_METHOD, "/cluster/relay", "relay"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "target", "params"),
    [
        ("GET", "/v1/runs", "runs", {}),
        ("GET", "/v1/runs/r1", "show", {"id": "r1"}),
        ("POST", "/v1/runs/r1", "change", {"id": "r1"}),
        ("GET", "/v1/runs/latest", "latest", {}),
        ("GET", "/v1/runs/a%2Fb%20c", "show", {"id": "a/b c"}),
        ("DELETE", "/cluster/relay", "relay", {}),
    ],
)
def test_found(method: str, path: str, target: str, params: dict[str, str]) -> None:
    assert TABLE.find(method, path) == (target, params)


@pytest.mark.parametrize("path", ["/", "", "/v1/runs/", "/v1/runs/a/b", "/v1/Runs", "//v1/runs", "/v1/runs/a/"])
def test_unknown_path(path: str) -> None:
    with pytest.raises(Problem) as refusal:
        TABLE.find("GET", path)
    assert (refusal.value.status, refusal.value.certainty) == (404, "not_done")


def test_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(Problem) as refusal:
        TABLE.find("PUT", "/v1/runs/r1")
    assert (refusal.value.status, refusal.value.headers["Allow"]) == (405, "GET, POST")


def test_two_routes_for_one_thing_are_a_fault_of_the_program() -> None:
    with pytest.raises(AssertionError, match="two routes for GET /a"):
        RouteTable([("GET", "/a", 1), ("GET", "/a", 2)])
