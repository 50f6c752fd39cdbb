"""`contracts/openapi/admission.yaml` is what the admission listener does: its forms, its paths, and every status."""

import asyncio
import json
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster import request_parts
from cluster.bearer import Bearers, Principal
from cluster.listener import Listener, bound
from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.problem import Problem
from runner.admission import service
from runner.admission.routes import MAX_ADMISSION_BODY_BYTES, admission_routes
from tests.contracts.admission_document import OPERATIONS, document, text
from tests.contracts.schema_check import faults, resolved
from tests.unit.cluster_edges.raw_http import RawAnswer, request_bytes, send_raw
from tests.unit.runner.world import Voter, running, tick, triggered, voter
from worker.protocol import (
    Accept,
    CannotTell,
    ConfirmStopped,
    FenceRequest,
    Fences,
    Finish,
    Forfeit,
    Held,
    PermitRequest,
    Permits,
    Poll,
    PollReply,
    Reports,
)

YAML = Path(__file__).parents[2] / "contracts" / "openapi" / "admission.yaml"
DOCUMENT = document()
TOKENS = {"w1": b"tok-w1w1w1w1w1w1w1", "w2": b"tok-w2w2w2w2w2w2w2", "ann": b"tok-annannannannann"}
POLL = Poll(version=1, incarnation="i1", ledger="l1", life=1, number=1, epoch=0, slots=4, held=[])


def test_the_page_is_the_document() -> None:
    assert YAML.read_text() == text(), "print it anew: python -m tests.contracts.admission_document"


def test_paths_methods_and_roles_are_those_of_the_routes() -> None:
    routes = admission_routes(voter().admission)
    assert {(route.path, route.method.lower()) for route in routes} == {
        (path, method) for path, methods in DOCUMENT["paths"].items() for method in methods
    }
    assert {role for route in routes for role in route.roles} == {"worker"}


def test_every_reference_leads_somewhere_and_everything_named_is_used() -> None:
    used: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if (ref := part.get("$ref")) is not None:
                used.add(ref)
                resolved(ref, DOCUMENT)
            for each in part.values():
                walk(each)
        elif isinstance(part, list):
            for each in part:
                walk(each)

    walk(DOCUMENT)
    named = {
        f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in DOCUMENT["components"][kind]
    }
    assert named == used


def test_every_field_that_a_worker_sends_has_its_limits() -> None:
    seen = set()

    def walk(schema: dict[str, Any], at: str) -> None:
        schema = resolved(schema["$ref"], DOCUMENT) if "$ref" in schema else schema
        for each in schema.get("anyOf", ()):
            walk(each, at)
        match schema.get("type"):
            case "string":
                assert "maxLength" in schema, at
            case "array":
                assert "maxItems" in schema, at
                walk(schema["items"], f"{at}[]")
            case "integer" | "number" if not at.rpartition(".")[0].endswith("binding"):
                assert {"maximum", "exclusiveMaximum"} & schema.keys(), at
                assert "minimum" in schema, at
            case "object":
                for name, each in schema["properties"].items():
                    seen.add(name)
                    walk(each, f"{at}.{name}")

    for asked, _, _, _ in OPERATIONS.values():
        walk(DOCUMENT["components"]["schemas"][asked.__name__], asked.__name__)
    assert {"reservation", "tail", "binding", "slots", "evidence"} <= seen


# ---- what the handlers take is what the document says that they take


REPORT: dict[str, Any] = {"run_id": "r1", "attempt": 1, "incarnation": "i1", "ledger": "l1"}
BINDING: dict[str, Any] = {
    **dict.fromkeys(("cluster_id", "namespace", "schedule_id", "occurrence", "run_id", "owner", "worker"), "x"),
    **dict.fromkeys(("incarnation", "ledger", "digest", "authority"), "x"),
    **dict.fromkeys(("generation", "attempt", "epoch"), 1),
}
MESSAGES: dict[str, dict[str, Any]] = {
    "/v1/poll": msgspec.to_builtins(
        msgspec.structs.replace(POLL, held=[Held("r1", 1, "accepted", observable=True)], wait_s=0.5)
    ),
    "/v1/permits": {"version": 1, "number": 3, "items": [{"binding": BINDING, "reservation": "x"}]},
    "/v1/fences": {"version": 1, "number": 4, "items": [{"binding": BINDING}]},
    "/v1/reports": {
        "version": 1,
        "number": 5,
        "items": [
            {**REPORT, "kind": "accept", "execution_id": "pid 7", "started_ms": 5},
            {
                **REPORT,
                "kind": "finish",
                "succeeded": False,
                "reason": "exit",
                "exit_code": 3,
                "ended_ms": 9,
                "tail": "no",
            },
            {**REPORT, "kind": "confirm_stopped", "consumed": True, "exit_code": None, "ended_ms": 9},
            {**REPORT, "kind": "forfeit", "evidence": "fenced before consuming"},
            {**REPORT, "kind": "cannot_tell"},
        ],
    },
}


def altered(value: Any) -> list[Any]:
    """Return what a careless or hostile program might send in place of a value."""
    others: list[Any] = [None, True, -1, 0, 1.5, 2**53, "", "x" * 2_000, [], {}, "accept", "reserved"]
    if isinstance(value, list):
        others += [value[:1] * 1_001, [None]]
        others += [[*value[:n], each, *value[n + 1 :]] for n in range(len(value)) for each in altered(value[n])]
    if isinstance(value, dict):
        others += [{name: each for name, each in value.items() if name != gone} for gone in value]
        others += [{**value, "more": 1}]
        others += [{**value, name: each} for name in value for each in altered(value[name])]
    return others


@pytest.mark.parametrize("path", list(MESSAGES))
def test_handler_and_document_agree_on_what_is_a_message(path: str) -> None:
    name = OPERATIONS[path][0].__name__
    schema = DOCUMENT["components"]["schemas"][name]
    kind = OPERATIONS[path][0]
    taken = refused = 0
    for message in [MESSAGES[path], *altered(MESSAGES[path])]:
        try:
            msgspec.json.decode(json.dumps(message), type=kind)
            is_taken = True
        except msgspec.ValidationError:
            is_taken = False
        found = list(faults(schema, message, DOCUMENT))
        assert is_taken == (not found), (message, found)
        taken, refused = taken + is_taken, refused + (not is_taken)
    assert taken > 2, "and some of what is altered is still one"
    assert refused > 30


# ---- what the listener answers is what the document says that it answers


class Rig:
    """A real listener over the real handlers of one voter, whose answers are held against the document."""

    def __init__(self, one: Voter, port: int) -> None:
        self.one = one
        self.port = port
        self.seen: set[tuple[str, str]] = set()

    async def send(
        self, path: str, message: Any, *headers: bytes, who: str = "w1", kind: str = "application/json"
    ) -> RawAnswer:
        codec = msgspec.msgpack if kind.endswith("msgpack") else msgspec.json
        body = message if isinstance(message, bytes) else codec.encode(message)
        bearer = b"Authorization: Bearer " + TOKENS[who]
        return await self.raw(
            path, request_bytes("POST", path, bearer, b"Content-Type: " + kind.encode(), *headers, body=body)
        )

    async def raw(self, path: str, request: bytes) -> RawAnswer:
        answer = await send_raw(self.port, request)
        self._check(path, answer)
        self.seen.add((path, str(answer.status)))
        return answer

    def _check(self, path: str, answer: RawAnswer) -> None:
        stated = DOCUMENT["paths"][path]["post"]["responses"][str(answer.status)]
        stated = resolved(stated["$ref"], DOCUMENT) if "$ref" in stated else stated
        content_type = answer.headers["content-type"]
        codec = msgspec.msgpack if content_type.endswith("msgpack") else msgspec.json
        found = faults(stated["content"][content_type]["schema"], codec.decode(answer.body), DOCUMENT)
        assert list(found) == [], (path, answer)
        for name in stated.get("headers", {}):
            assert name.lower() in answer.headers, (path, answer)


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    one = voter()
    with bound("test", "127.0.0.1", 0) as socket:
        async with running(one), serving(one, socket) as port:
            yield Rig(one, port)


@asynccontextmanager
async def serving(one: Voter, socket: sockets.socket) -> AsyncIterator[int]:
    principals = {name: Principal(name, "operator" if name == "ann" else "worker") for name in TOKENS}
    listener = Listener(
        name="admission",
        socket=socket,
        bearers=Bearers([(principals[name], token) for name, token in TOKENS.items()]),
        routes=admission_routes(one.admission),
        max_body_bytes=MAX_ADMISSION_BODY_BYTES,
    )
    try:
        yield await listener.start()
    finally:
        await listener.close()


def status(answer: RawAnswer, certainty: str | None = None) -> int:
    if certainty is not None:
        assert json.loads(answer.body)["certainty"] == certainty
    return answer.status


async def a_day(at: Rig) -> None:
    """Have one attempt claimed, permitted, accepted, finished; and all else that is answered 200."""
    await at.one.apply(tick("a", 3_600))
    await triggered(at.one, "ta", "a")
    claims: list[Any] = []
    number = 0
    async with asyncio.timeout(10):
        while not claims:
            number += 1
            poll = msgspec.structs.replace(POLL, number=number, wait_s=1.0)
            claims = msgspec.json.decode((await at.send("/v1/poll", poll)).body, type=PollReply).claims
    (claim,) = claims
    of = {
        "run_id": claim.binding.run_id,
        "attempt": claim.binding.attempt,
        "incarnation": "i1",
        "ledger": "l1",
    }
    said: list[tuple[str, Any]] = [
        ("/v1/permits", Permits(1, 10, [PermitRequest(claim.binding, "x1"), PermitRequest(claim.binding, "other")])),
        ("/v1/fences", Fences(1, 11, [FenceRequest(claim.binding)])),
        (
            "/v1/reports",
            Reports(
                1,
                12,
                [
                    Accept(**of, execution_id="pid 7", started_ms=5),
                    Finish(**of, succeeded=True, exit_code=0, ended_ms=9),
                    ConfirmStopped(**of, consumed=True, ended_ms=9),
                    Forfeit(**of),
                    CannotTell(**(of | {"run_id": "nobody"})),
                ],
            ),
        ),
    ]
    for kind in ("application/json", "application/msgpack"):
        for path, message in said:
            assert (await at.send(path, message, kind=kind)).status == 200


async def refusals(at: Rig, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one path answer everything but 200."""
    message: Any = POLL if path == "/v1/poll" else MESSAGES[path]
    assert status(await at.send(path, b"{"), "not_done") == 400
    assert status(await at.raw(path, request_bytes("POST", path, body=b"{}")), "not_done") == 401
    assert status(await at.send(path, message, who="ann"), "not_done") == 403
    assert status(await at.send(path, b"x" * (MAX_ADMISSION_BODY_BYTES + 1)), "not_done") == 413
    assert status(await at.send(path, message, kind="text/plain"), "not_done") == 415
    assert status(await at.send(path, message, b"X: " + b"x" * 9_000), "not_done") == 431
    with monkeypatch.context() as patch:
        patch.setattr(request_parts, "BODY_S", 0.01)
        waits = request_bytes("POST", path, b"Authorization: Bearer " + TOKENS["w1"], b"Content-Length: 9")
        assert status(await at.raw(path, waits), "not_done") == 408
    name = path.rpartition("/")[2]
    real = getattr(service.Admission, name)
    ways: list[tuple[Exception, int, str]] = [
        (NotApplied(Why.QUEUE_FULL), 429, "not_done"),
        (NotApplied(Why.EXPIRED), 503, "not_done"),
        (OutcomeUnknown(), 503, "unknown"),
        (KeyError("a fault of ours"), 500, "unknown"),
    ]
    for fault, stated, certainty in ways:

        async def fails(*_: object, fault: Exception = fault) -> None:
            raise fault

        monkeypatch.setattr(at.one.admission, name, fails)
        with bound("test", "127.0.0.1", 0) as socket:
            async with serving(at.one, socket) as port:
                other = Rig(at.one, port)
                assert status(await other.send(path, message), certainty) == stated
                at.seen |= other.seen
    monkeypatch.setattr(at.one.admission, name, real.__get__(at.one.admission))


async def test_every_status_of_every_path_is_answered_as_it_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as at:
        await a_day(at)
        for path in OPERATIONS:
            await refusals(at, path, monkeypatch)
        second = msgspec.structs.replace(POLL, ledger="another", incarnation="i9", number=99)
        assert status(await at.send("/v1/poll", second), "not_done") == 409
        for path in OPERATIONS:
            stranger = {**MESSAGES[path], "cluster_id": "another"}
            assert status(await at.send(path, stranger), "not_done") == 409
        at.one.node.depose("node2")
        await asyncio.sleep(0)
        for path in OPERATIONS:
            message: Any = POLL if path == "/v1/poll" else MESSAGES[path]
            for kind in ("application/json", "application/msgpack"):
                assert (await at.send(path, message, kind=kind)).status == 421
    stated = {(path, each) for path, one in DOCUMENT["paths"].items() for each in one["post"]["responses"]}
    assert at.seen == stated


def test_a_problem_of_any_kind_has_the_stated_form() -> None:
    problem = Problem(503, "Not Applied", "Nothing was applied.", "not_done", retry_after_s=1)
    schema = DOCUMENT["components"]["schemas"]["Problem"]
    assert list(faults(schema, json.loads(problem.body()), DOCUMENT)) == []
    assert list(faults(schema, {"type": "about:blank", "status": 200}, DOCUMENT)) != []
