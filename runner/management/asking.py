"""What a request asks for, decided from the request alone: a query to run, or an op to build."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import msgspec

from cluster.listener import Request
from cluster.problem import Problem
from runner.checkpoint.marks import BadMark, EventMark, RunMark
from runner.checkpoint.ops import CancelOp, Delete, Op, Operation, SetEnabled, SetFrozen, Trigger
from runner.checkpoint.records import RunState
from runner.management import reading
from runner.management.applying import apply_op, check, preview
from runner.management.authorization import demand, demand_all
from runner.management.bodies import (
    ApplyBody,
    AttestBody,
    AttestIncarnationBody,
    CancelBody,
    FreezeBody,
    ReplaceBody,
    ScheduleName,
)
from runner.management.recovering import ATTESTING, attest_incarnation_op, attest_op, check_statement, place_after

DEFAULT_ROWS: Final = 50
B = TypeVar("B")
M = TypeVar("M", RunMark, EventMark)
DrawId = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Read:
    """Ask what is so; the query returns the form to answer with, or raises a Problem.

    The rows of a `reading.Page` may be worked out one by one, after the query.
    """

    query: Callable[[sqlite3.Connection], object]


@dataclass(frozen=True, slots=True)
class Change:
    """Ask for an op; built only where it is submitted, from the operation and a source of fresh ids.

    Attributes:
        says: what the answer to a change that was done says, whatever was done.
    """

    build: Callable[[Operation, DrawId], Op]
    says: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Ask for a voter's disk to be replaced: by the one named, or by the one that is linked."""

    voter: str
    disk_id: str | None


Asked = Read | Change | Replacement


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path, what a role must be allowed to use it, and how its requests are read.

    Attributes:
        command: key of `authorization.ALLOWED`.
        parse: raises a Problem for a request that cannot be meant.
    """

    method: str
    path: str
    command: str
    parse: Callable[[Request], Asked]


def _schedules(request: Request) -> Asked:
    _known(request, {"after", "limit"})
    after = _named(request, "after") or ("", "")
    limit = _limit(request, reading.MOST_ROWS)
    return Read(partial(reading.schedules, principal=request.principal, after=after, limit=limit))


def _runs(request: Request) -> Asked:
    _known(request, {"schedule", "state", "before", "limit"})
    return Read(
        partial(
            reading.runs,
            principal=request.principal,
            named=_named(request),
            state=_state(request),
            before=_mark(request, RunMark.read),
            limit=_limit(request),
        )
    )


def _show(request: Request) -> Asked:
    _known(request, set())
    return Read(partial(reading.show, principal=request.principal, run_id=request.params["id"]))


def _unknown(request: Request) -> Asked:
    _known(request, {"worker", "incarnation", "after", "limit"})
    return Read(
        partial(
            reading.unknown,
            principal=request.principal,
            worker=request.query.get("worker"),
            incarnation=request.query.get("incarnation"),
            after=place_after(request.query.get("after")),
            limit=_limit(request),
        )
    )


def _events(request: Request) -> Asked:
    _known(request, {"run_id", "before", "limit"})
    return Read(
        partial(
            reading.events,
            principal=request.principal,
            run_id=request.query.get("run_id"),
            before=_mark(request, EventMark.read),
            limit=_limit(request),
        )
    )


def _apply(request: Request) -> Asked:
    _known(request, {"dry_run"})
    body, principal = _body(request, ApplyBody), request.principal
    check(body, principal)
    match request.query.get("dry_run", "false"):
        case "true":
            return Read(partial(preview, body=body))
        case "false":
            return Change(lambda operation, draw_id: apply_op(body, operation, draw_id))
        case other:
            raise _bad(f"dry_run is {other!r}; write true or false.")


def _trigger(request: Request) -> Asked:
    name = _schedule_name(request)
    return Change(lambda operation, _: Trigger(operation, name.namespace, name.name))


def _set_enabled(request: Request, *, enabled: bool) -> Asked:
    name = _schedule_name(request)
    return Change(lambda operation, _: SetEnabled(operation, name.namespace, name.name, enabled))


def _delete(request: Request) -> Asked:
    name = _schedule_name(request)
    return Change(lambda operation, _: Delete(operation, name.namespace, name.name))


def _cancel(request: Request) -> Asked:
    _known(request, set())
    body = _body(request, CancelBody)
    return Change(lambda operation, _: CancelOp(operation, body.run_id))


def _set_frozen(request: Request, *, frozen: bool) -> Asked:
    _known(request, set())
    _body(request, FreezeBody)
    demand_all(request.principal, "A freeze holds for all namespaces", "begin or end one")
    return Change(lambda operation, _: SetFrozen(operation, frozen))


def _attest(request: Request) -> Asked:
    _known(request, set())
    body = _body(request, AttestBody)
    check_statement(body)
    return Change(lambda operation, _: attest_op(body, operation), ATTESTING)


def _attest_incarnation(request: Request) -> Asked:
    _known(request, set())
    body = _body(request, AttestIncarnationBody)
    check_statement(body)
    demand_all(request.principal, "Workers serve all namespaces", "attest all of an incarnation")
    return Change(lambda operation, _: attest_incarnation_op(body, operation), ATTESTING)


def _replace(request: Request) -> Asked:
    _known(request, set())
    body = _body(request, ReplaceBody)
    demand_all(request.principal, "Voters serve all namespaces", "have one replaced")
    return Replacement(body.voter, body.disk_id)


ENDPOINTS: Final = (
    Endpoint("GET", "/v1/schedules", "list", _schedules),
    Endpoint("GET", "/v1/runs", "list", _runs),
    Endpoint("GET", "/v1/runs/{id}", "show", _show),
    Endpoint("GET", "/v1/events", "events", _events),
    Endpoint("GET", "/v1/unknown", "unknown", _unknown),
    Endpoint("POST", "/v1/apply", "apply", _apply),
    Endpoint("POST", "/v1/trigger", "trigger", _trigger),
    Endpoint("POST", "/v1/enable", "enable", partial(_set_enabled, enabled=True)),
    Endpoint("POST", "/v1/disable", "disable", partial(_set_enabled, enabled=False)),
    Endpoint("POST", "/v1/delete", "delete", _delete),
    Endpoint("POST", "/v1/cancel", "cancel", _cancel),
    Endpoint("POST", "/v1/freeze", "freeze", partial(_set_frozen, frozen=True)),
    Endpoint("POST", "/v1/unfreeze", "unfreeze", partial(_set_frozen, frozen=False)),
    Endpoint("POST", "/v1/attest", "attest", _attest),
    Endpoint("POST", "/v1/attest/incarnation", "attest", _attest_incarnation),
    Endpoint("POST", "/v1/voters/replace", "voter replace", _replace),
)


def _known(request: Request, names: set[str]) -> None:
    for name in request.query:
        if name not in names:
            takes = f"takes {', '.join(sorted(names))}" if names else "takes none"
            raise _bad(f"The query parameter {name!r} is unknown; {request.path} {takes}.")


def _body(request: Request, form: type[B]) -> B:
    if request.content_type not in {"", "application/json"}:
        raise Problem(415, "Unsupported Media Type", "Send the body as application/json.", "not_done")
    try:
        return msgspec.json.decode(request.body, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as fault:
        raise _bad(f"The body is not as it should be: {fault}.") from fault


def _schedule_name(request: Request) -> ScheduleName:
    _known(request, set())
    name = _body(request, ScheduleName)
    demand(request.principal, name.namespace)
    return name


def _named(request: Request, parameter: str = "schedule") -> tuple[str, str] | None:
    text = request.query.get(parameter)
    if text is None:
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name):
        raise _bad(f"{parameter} is {text!r}; write NAMESPACE/NAME.")
    return namespace, name


def _mark(request: Request, read: Callable[[str], M]) -> M | None:
    text = request.query.get("before")
    if text is None:
        return None
    try:
        return read(text)
    except BadMark as fault:
        raise _bad(f"before is {text[:100]!r}; give what Fencepost-Next of the page before said.") from fault


def _state(request: Request) -> RunState | None:
    text = request.query.get("state")
    if text is None:
        return None
    try:
        return RunState(text)
    except ValueError as fault:
        raise _bad(f"state is {text!r}; write one of: {', '.join(state.value for state in RunState)}.") from fault


def _limit(request: Request, default: int = DEFAULT_ROWS) -> int:
    text = request.query.get("limit", str(default))
    is_short_number = text.isascii() and text.isdigit() and len(text) <= len(str(reading.MOST_ROWS))
    if not is_short_number or not 1 <= int(text) <= reading.MOST_ROWS:
        raise _bad(f"limit is {text!r}; write 1 to {reading.MOST_ROWS}.")
    return int(text)


def _bad(detail: str) -> Problem:
    return Problem(400, "Bad Request", detail, "not_done")
