"""What recovery staff read and state, over the real state machine."""

from typing import Any

import pytest

from cluster.bearer import Principal
from runner.checkpoint import queries
from runner.checkpoint.admitting import binding_of
from runner.checkpoint.ops import AdmitOp, ClaimOp, LoseOp
from runner.management.recovering import ATTESTING_DOES_NOT
from tests.unit.management.fakes import RECOVERY, TOKENS, Voter, decoded
from tests.unit.management.test_with_checkpoint import NAME, TICK, LiveOwner, change, live_cluster

STATEMENT = {"attester": "Rita", "statement": "the host burnt", "evidence": "ticket 7"}
LOST = {"worker": "w1", "incarnation": "a4", **STATEMENT}
WHOLE = "/v1/attest/incarnation"


async def lost(names: tuple[str, ...] = ("tick", "tock")) -> tuple[Voter, Voter, LiveOwner]:
    """Return a cluster in which worker w1/a4 was lost with one permitted attempt of each schedule."""
    owner, follower, live = live_cluster()
    await change(owner, "/v1/apply", {"schedules": [TICK | {"name": name} for name in names]}, 1)
    for n, name in enumerate(names, 2):
        run_id = await permitted(owner, live, name, n)
        assert live.commit(LoseOp(run_id, 1, "worker_out_of_contact")).kind == "recorded"
    return owner, follower, live


async def permitted(owner: Voter, live: LiveOwner, name: str, n: int) -> str:
    run_id = decoded(await change(owner, "/v1/trigger", NAME | {"name": name}, n))["run_id"]
    assert live.commit(ClaimOp(run_id, 1, "w1", "a4", "l1", ("default",))).kind == "claimed"
    run, (attempt,) = queries.run(owner.db, run_id), queries.attempts(owner.db, run_id)
    assert run is not None
    binding = binding_of(queries.head(owner.db), run, attempt)
    assert live.commit(AdmitOp("w1", binding, "x1")).kind == "granted"
    return run_id


async def unknown(voter: Voter, principal: Principal = RECOVERY, **query: str) -> list[dict[str, Any]]:
    reply = await voter.ask("GET", "/v1/unknown", principal=principal, **query)
    assert reply.status == 200
    return decoded(reply)


def rows_of(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: row[key] for key in ("run_id", "attempt", "row_revision")} for row in listed]


async def test_what_can_be_attested_is_listed_with_whose_it_is_since_when_and_why() -> None:
    owner, follower, _ = await lost()
    listed = await unknown(follower)
    assert {row["schedule"] for row in listed} == {"tick", "tock"}
    first = listed[0]
    assert (first["worker"], first["incarnation"], first["state"], first["run_state"]) == (
        "w1",
        "a4",
        "Unknown",
        "Unknown",
    )
    assert (first["since"], first["why"]) == ("2026-01-01T00:00:00Z", "its worker has been out of contact")
    assert first["row_revision"] == queries.attempts(owner.db, first["run_id"])[0].revision
    assert await unknown(owner, worker="w1", incarnation="a4") == listed
    assert await unknown(owner, worker="w2") == []
    assert await unknown(owner, incarnation="a5") == []


async def test_a_long_list_comes_in_pages() -> None:
    owner, _, _ = await lost(("s1", "s2", "s3"))
    listed, after = [], {}
    for _ in range(4):
        reply = await owner.ask("GET", "/v1/unknown", principal=RECOVERY, limit="1", **after)
        listed += decoded(reply)
        after = {"after": reply.headers["Fencepost-Next"]} if "Fencepost-Next" in reply.headers else {}
    assert listed[:3] == await unknown(owner)
    assert (len(listed), after) == (3, {})
    for bad in ("", "x", "w/i/r", "w/i/r/x", "w/i//1", "w/i/r/" + "1" * 30, "w/i/r/\u0661"):
        assert (await owner.ask("GET", "/v1/unknown", principal=RECOVERY, after=bad)).status == 400


async def test_a_credential_for_some_namespaces_sees_only_theirs_and_may_not_attest_all() -> None:
    owner, _, _ = await lost()
    other = Principal("rolf", "recovery", frozenset({"other"}))
    TOKENS[other] = b"recovery-token-0004"
    assert await unknown(owner, other) == []
    refused = await change(owner, WHOLE, LOST | {"attempts": []}, 9, principal=other)
    assert (refused.status, decoded(refused)["certainty"]) == (403, "not_done")
    del TOKENS[other]


async def test_one_statement_resolves_all_that_a_lost_host_left_and_says_what_it_does_not_do() -> None:
    owner, follower, _ = await lost()
    read = await unknown(follower)
    done = await change(follower, WHOLE, LOST | {"attempts": rows_of(read)}, 9, principal=RECOVERY)
    told = decoded(done)
    assert (done.status, told["again"]) == (200, False)
    assert [(each["run_id"], each["run_state"]) for each in told["attested"]] == [
        (row["run_id"], "Quiesced") for row in read
    ]
    assert tuple(told["attesting_does_not"]) == ATTESTING_DOES_NOT
    assert await unknown(owner) == []
    shown = decoded(await owner.ask("GET", f"/v1/runs/{read[0]['run_id']}"))
    (event,) = [e for e in shown["events"] if e["op"] == "attest" and e["attempt"]]
    assert (event["actor"], event["why"]) == ("rita", "attested by Rita, with all of incarnation a4")


async def test_a_statement_about_one_attempt_says_what_it_does_not_do_too() -> None:
    owner, _, _ = await lost()
    row = rows_of(await unknown(owner))[0]
    told = decoded(await change(owner, "/v1/attest", STATEMENT | row, 9, principal=RECOVERY))
    assert tuple(told["attesting_does_not"]) == ATTESTING_DOES_NOT


async def test_another_list_is_refused_with_the_one_that_there_is() -> None:
    owner, _, _ = await lost()
    read = rows_of(await unknown(owner))
    refused = await change(owner, WHOLE, LOST | {"attempts": read[1:]}, 9, principal=RECOVERY)
    told = decoded(refused)
    assert (refused.status, told["reason"], told["attempts"]) == (409, "list_changed", read)
    assert "read the list again" in told["detail"]
    stale = [row | {"row_revision": row["row_revision"] - 1} for row in read]
    refused = await change(owner, WHOLE, LOST | {"attempts": stale}, 10, principal=RECOVERY)
    assert (refused.status, decoded(refused)["reason"]) == (409, "row_changed")
    assert len(await unknown(owner)) == 2


async def test_an_incarnation_that_is_not_lost_yet_is_refused_in_words() -> None:
    owner, _, live = await lost(("tick",))
    await change(owner, "/v1/apply", {"schedules": [TICK | {"name": "tock"}]}, 5)
    await permitted(owner, live, "tock", 6)
    rows = rows_of(await unknown(owner))
    refused = await change(owner, WHOLE, LOST | {"attempts": rows}, 9, principal=RECOVERY)
    assert (refused.status, decoded(refused)["reason"]) == (409, "still_open")
    assert "still awaited" in decoded(refused)["detail"]


@pytest.mark.parametrize("path", ["/v1/attest", WHOLE])
@pytest.mark.parametrize("part", ["attester", "statement", "evidence"])
@pytest.mark.parametrize(
    "text", ["ticket 7\n2026-01-01T00:00:00Z finish Succeeded", "\x1b[2J", "a\x00", "a\u2028b", "\u202e7 tekcit", " "]
)
async def test_words_that_are_no_plain_line_go_on_no_record(path: str, part: str, text: str) -> None:
    owner, _, _ = live_cluster()
    about = LOST | {"attempts": []} if path == WHOLE else STATEMENT | {"run_id": "r", "attempt": 1, "row_revision": 1}
    refused = await change(owner, path, about | {part: text}, 9, principal=RECOVERY)
    assert (refused.status, decoded(refused)["certainty"]) == (400, "not_done")
    assert decoded(refused)["detail"].startswith(f"{part} is ")
