from cluster.bearer import Principal
from runner.management.authorization import ALLOWED, may_touch
from runner.management.routes import management_routes
from tests.unit.management.fakes import cluster

EITHER, OPERATOR, RECOVERY = frozenset({"operator", "recovery"}), frozenset({"operator"}), frozenset({"recovery"})

# DESIGN 7, written out path by path.
EXPECTED = {
    ("GET", "/healthz"): EITHER,
    ("GET", "/readyz"): EITHER,
    ("GET", "/v1/status"): EITHER,
    ("GET", "/metrics"): EITHER,
    ("GET", "/v1/schedules"): EITHER,
    ("GET", "/v1/runs"): EITHER,
    ("GET", "/v1/runs/{id}"): EITHER,
    ("GET", "/v1/events"): EITHER,
    ("GET", "/v1/unknown"): EITHER,
    ("GET", "/v1/next"): EITHER,
    ("POST", "/v1/apply"): OPERATOR,
    ("POST", "/v1/backfill"): OPERATOR,
    ("POST", "/v1/clock/accept"): OPERATOR,
    ("POST", "/v1/trigger"): OPERATOR,
    ("POST", "/v1/enable"): OPERATOR,
    ("POST", "/v1/disable"): OPERATOR,
    ("POST", "/v1/delete"): OPERATOR,
    ("POST", "/v1/cancel"): OPERATOR,
    ("POST", "/v1/freeze"): OPERATOR,
    ("POST", "/v1/unfreeze"): OPERATOR,
    ("POST", "/v1/attest"): RECOVERY,
    ("POST", "/v1/attest/incarnation"): RECOVERY,
    ("POST", "/v1/voters/replace"): OPERATOR,
}


def test_every_route_is_open_to_exactly_the_roles_of_the_design() -> None:
    voter, _ = cluster()
    routes = management_routes(voter.management)
    assert {(route.method, route.path): route.roles for route in routes} == EXPECTED


def test_no_worker_and_no_cluster_credential_may_do_anything_here() -> None:
    assert all(not roles & {"worker", "cluster"} for roles in ALLOWED.values())


def test_namespaces_bound_a_credential_and_none_means_all() -> None:
    assert may_touch(Principal("olga", "operator"), "demo")
    assert may_touch(Principal("tina", "operator", frozenset({"demo"})), "demo")
    assert not may_touch(Principal("tina", "operator", frozenset({"demo"})), "other")
    assert not may_touch(Principal("nobody", "operator", frozenset()), "demo")
