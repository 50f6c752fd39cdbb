"""Freeze and unfreeze as an operator asks for them, over the real state machine."""

from tests.unit.management.fakes import NOW_MS, TENANT, decoded
from tests.unit.management.test_with_checkpoint import NAME, TICK, change, live_cluster


async def test_a_freeze_shows_who_and_since_when_and_what_waits_for_its_end() -> None:
    owner, follower, _ = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [TICK]}, 1)
    run_id = decoded(await change(owner, "/v1/trigger", NAME, 2))["run_id"]
    assert decoded(await owner.ask("GET", "/v1/status"))["frozen"] is None
    owner.clock.now_ms = NOW_MS + 5_000
    frozen = decoded(await change(follower, "/v1/freeze", {}, 3))
    assert (frozen["frozen"], frozen["unchanged"], frozen["open_attempts"]) == (True, False, 0)
    assert decoded(await owner.ask("GET", "/v1/status"))["frozen"] == {"since": "2026-01-01T00:00:05Z", "by": "olga"}
    shown = decoded(await owner.ask("GET", f"/v1/runs/{run_id}"))
    assert shown["waits_for"].startswith("`fencepost unfreeze`: frozen since 2026-01-01T00:00:05Z by olga")
    refused = await change(owner, "/v1/trigger", NAME, 4)
    assert (refused.status, decoded(refused)["reason"]) == (409, "frozen")
    assert "until `fencepost unfreeze`" in decoded(refused)["detail"]
    assert decoded(await change(owner, "/v1/unfreeze", {}, 5))["frozen"] is False
    assert decoded(await owner.ask("GET", "/v1/status"))["frozen"] is None
    assert (await change(owner, "/v1/trigger", NAME, 6)).status == 200


async def test_a_freeze_takes_a_credential_for_all_namespaces_and_an_empty_object() -> None:
    owner, _, _ = live_cluster()
    for path in ("/v1/freeze", "/v1/unfreeze"):
        refused = await change(owner, path, {}, 1, principal=TENANT)
        assert (refused.status, decoded(refused)["certainty"]) == (403, "not_done")
        assert (await change(owner, path, {"until": "noon"}, 2)).status == 400
        assert (await change(owner, path, None, 3)).status == 400
    assert decoded(await owner.ask("GET", "/v1/status"))["frozen"] is None
