"""What Prometheus is told is what `status` says; a doubted clock shows in both and in readiness."""

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.management.fakes import Voter, cluster, decoded


async def told(voter: Voter) -> dict[str, float]:
    reply = await voter.ask("GET", "/metrics")
    assert (reply.status, reply.content_type.partition(";")[0]) == (200, "text/plain")
    families = text_string_to_metric_families(reply.body.decode())
    return {
        each.name + "".join(f"{{{value}}}" for value in each.labels.values()): each.value
        for family in families
        for each in family.samples
    }


async def test_the_owner_says_what_only_it_knows() -> None:
    voter, _ = cluster()
    status, metrics = decoded(await voter.ask("GET", "/v1/status")), await told(voter)
    assert metrics["fencepost_owner"] == 1
    for key in ("epoch", "revision", "term", "applied_index"):
        assert metrics[f"fencepost_{key}"] == status[key]
    assert metrics["fencepost_runs{Skipped}"] == status["runs"]["Skipped"]
    assert metrics["fencepost_clock_stepped"] == metrics["fencepost_clock_behind"] == 0
    assert metrics["fencepost_workers"] == len(status["workers"])


async def test_another_voter_says_nothing_of_clocks_and_workers() -> None:
    _, other = cluster()
    metrics = await told(other)
    assert metrics["fencepost_owner"] == 0
    assert not {"fencepost_clock_stepped", "fencepost_workers"} & metrics.keys()


async def test_a_doubted_clock_is_a_number_and_keeps_the_owner_from_being_ready() -> None:
    voter, _ = cluster()
    voter.owner.clock = "clock_stepped"
    assert (await told(voter))["fencepost_clock_stepped"] == 1
    reply = await voter.ask("GET", "/readyz")
    assert reply.status == 503
    assert "fencepost clock accept" in decoded(reply)["why"]
