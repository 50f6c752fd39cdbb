"""A voter's disk replaced over HTTP: by whoever owns, and in words that say what became of it."""

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown, Why
from tests.unit.management.fakes import TENANT, cluster, decoded

PATH = "/v1/voters/replace"
LINKED, NAMED = "e" * 32, "f" * 32


@pytest.mark.parametrize(("body", "disk_id"), [({}, LINKED), ({"disk_id": NAMED}, NAMED)])
async def test_the_owner_has_the_named_disk_accepted_or_else_the_linked_one_and_says_which(
    body: dict[str, str], disk_id: str
) -> None:
    owner, _ = cluster()
    reply = await owner.ask("POST", PATH, {"voter": "node2", **body})
    assert decoded(reply) == {"voter": "node2", "disk_id": disk_id, "entry": 17}
    assert owner.node.replaced == [("node2", disk_id)]
    assert owner.owner.ops == [], "it is no op of the checkpoint"


async def test_a_voter_that_does_not_own_relays_it_once() -> None:
    owner, follower = cluster()
    assert (await follower.ask("POST", PATH, {"voter": "node2"})).status == 200
    assert (len(follower.relay.sent), owner.node.replaced) == (1, [("node2", LINKED)])
    assert follower.node.replaced == []


async def test_without_a_linked_disk_it_is_not_done_and_worth_another_try() -> None:
    owner, _ = cluster()
    owner.node.linked_disk = ""
    reply = await owner.ask("POST", PATH, {"voter": "node2"})
    assert (reply.status, decoded(reply)["certainty"]) == (503, "not_done")
    assert "start its runner" in decoded(reply)["detail"]
    assert owner.node.replaced == []


@pytest.mark.parametrize(
    ("fault", "status", "certainty", "words"),
    [
        (NotApplied(Why.NO_REPLACEMENT, "because of this"), 409, "not_done", "Refused: because of this."),
        (NotApplied(Why.NOT_LEADER, "node2 leads"), 503, "not_done", "not_leader"),
        (OutcomeUnknown("lost"), 503, "unknown", "repeat it"),
    ],
)
async def test_what_became_of_it_is_said_with_its_certainty(
    fault: BaseException, status: int, certainty: str, words: str
) -> None:
    owner, _ = cluster()
    owner.node.replace_answers = fault
    reply = await owner.ask("POST", PATH, {"voter": "node2"})
    assert (reply.status, decoded(reply)["certainty"]) == (status, certainty)
    assert words in decoded(reply)["detail"]


async def test_a_voter_that_nobody_knows_is_refused_by_the_one_that_leads() -> None:
    owner, _ = cluster()
    await owner.ask("POST", PATH, {"voter": "node9"})
    assert owner.node.replaced == [("node9", "")], "the voter below knows who the members are, and says so"


async def test_a_credential_for_some_namespaces_may_not() -> None:
    owner, _ = cluster()
    assert (await owner.ask("POST", PATH, {"voter": "node2"}, principal=TENANT)).status == 403
    assert owner.node.replaced == []


@pytest.mark.parametrize(
    "body", [{}, {"voter": ""}, {"voter": "node2", "disk_id": "short"}, {"voter": "node2", "disk": LINKED}]
)
async def test_a_body_that_cannot_be_meant_changes_nothing(body: dict[str, str]) -> None:
    owner, _ = cluster()
    assert (await owner.ask("POST", PATH, body)).status == 400
    assert owner.node.replaced == []
