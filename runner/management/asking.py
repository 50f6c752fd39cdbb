"""What a request asks for, decided from the request alone: a query to run, or an op to build."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from cluster.listener import Request
from runner.checkpoint.marks import EventMark, RunMark
from runner.checkpoint.ops import AcceptClock, CancelOp, Delete, SetEnabled, SetFrozen, Trigger
from runner.management import backfilling, parameters, reading
from runner.management.applying import ahead, check, nothing, preview
from runner.management.asked import Asked, Change, Read, Replacement, Weighed
from runner.management.authorization import demand, demand_all
from runner.management.bodies import (
    ApplyBody,
    AttestBody,
    AttestIncarnationBody,
    BackfillBody,
    CancelBody,
    EmptyBody,
    EnableBody,
    ManualBody,
    ReplaceBody,
    ScheduleName,
)
from runner.management.parameters import body_of, known, mark, named, number, state
from runner.management.recovering import ATTESTING, attest_incarnation_op, attest_op, check_statement, place_after

DEFAULT_INSTANTS: Final = 20
N = TypeVar("N", bound=ScheduleName)


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
    known(request, {"after", "limit"})
    after = named(request, "after") or ("", "")
    limit = number(request, default=reading.MOST_ROWS)
    return Read(partial(reading.schedules, principal=request.principal, after=after, limit=limit))


def _runs(request: Request) -> Asked:
    known(request, {"schedule", "state", "before", "limit"})
    return Read(
        partial(
            reading.runs,
            principal=request.principal,
            named=named(request),
            state=state(request),
            before=mark(request, RunMark.read),
            limit=number(request),
        )
    )


def _show(request: Request) -> Asked:
    known(request, set())
    return Read(partial(reading.show, principal=request.principal, run_id=request.params["id"]))


def _unknown(request: Request) -> Asked:
    known(request, {"worker", "incarnation", "after", "limit"})
    return Read(
        partial(
            reading.unknown,
            principal=request.principal,
            worker=request.query.get("worker"),
            incarnation=request.query.get("incarnation"),
            after=place_after(request.query.get("after")),
            limit=number(request),
        )
    )


def _events(request: Request) -> Asked:
    known(request, {"run_id", "before", "limit"})
    return Read(
        partial(
            reading.events,
            principal=request.principal,
            run_id=request.query.get("run_id"),
            before=mark(request, EventMark.read),
            limit=number(request),
        )
    )


def _next(request: Request) -> Asked:
    known(request, {"namespace", "name", "n", "after", "explain"})
    return Read(
        partial(
            reading.planned,
            principal=request.principal,
            named=parameters.schedule(request),
            after_ms=parameters.instant_ms(request, "after"),
            count=number(request, "n", DEFAULT_INSTANTS),
            explain=parameters.flag(request, "explain"),
        )
    )


def _apply(request: Request) -> Asked:
    known(request, {"dry_run"})
    body = body_of(request, ApplyBody)
    check(body, request.principal)
    if parameters.flag(request, "dry_run"):
        return Read(partial(preview, body=body))
    return Weighed(partial(ahead, body=body), again=Change(nothing))


def _trigger(request: Request) -> Asked:
    body = _of_schedule(request, ManualBody)
    return Change(lambda operation, _: Trigger(operation, body.namespace, body.name, body.overlap == "allow"))


def _enable(request: Request) -> Asked:
    body = _of_schedule(request, EnableBody)
    return Change(
        lambda operation, _: SetEnabled(operation, body.namespace, body.name, enabled=True, catch_up=body.catch_up)
    )


def _disable(request: Request) -> Asked:
    name = _of_schedule(request, ScheduleName)
    return Change(lambda operation, _: SetEnabled(operation, name.namespace, name.name, enabled=False))


def _backfill(request: Request) -> Asked:
    return backfilling.asked(_of_schedule(request, BackfillBody))


def _accept_clock(request: Request) -> Asked:
    known(request, set())
    body_of(request, EmptyBody)
    demand_all(request.principal, "The clock is that of all namespaces", "accept it")
    return Change(lambda operation, _: AcceptClock(operation))


def _delete(request: Request) -> Asked:
    name = _of_schedule(request, ScheduleName)
    return Change(lambda operation, _: Delete(operation, name.namespace, name.name))


def _cancel(request: Request) -> Asked:
    known(request, set())
    body = body_of(request, CancelBody)
    return Change(lambda operation, _: CancelOp(operation, body.run_id))


def _set_frozen(request: Request, *, frozen: bool) -> Asked:
    known(request, set())
    body_of(request, EmptyBody)
    demand_all(request.principal, "A freeze holds for all namespaces", "begin or end one")
    return Change(lambda operation, _: SetFrozen(operation, frozen))


def _attest(request: Request) -> Asked:
    known(request, set())
    body = body_of(request, AttestBody)
    check_statement(body)
    return Change(lambda operation, _: attest_op(body, operation), ATTESTING)


def _attest_incarnation(request: Request) -> Asked:
    known(request, set())
    body = body_of(request, AttestIncarnationBody)
    check_statement(body)
    demand_all(request.principal, "Workers serve all namespaces", "attest all of an incarnation")
    return Change(lambda operation, _: attest_incarnation_op(body, operation), ATTESTING)


def _replace(request: Request) -> Asked:
    known(request, set())
    body = body_of(request, ReplaceBody)
    demand_all(request.principal, "Voters serve all namespaces", "have one replaced")
    return Replacement(body.voter, body.disk_id)


ENDPOINTS: Final = (
    Endpoint("GET", "/v1/schedules", "list", _schedules),
    Endpoint("GET", "/v1/runs", "list", _runs),
    Endpoint("GET", "/v1/runs/{id}", "show", _show),
    Endpoint("GET", "/v1/events", "events", _events),
    Endpoint("GET", "/v1/unknown", "unknown", _unknown),
    Endpoint("GET", "/v1/next", "next", _next),
    Endpoint("POST", "/v1/apply", "apply", _apply),
    Endpoint("POST", "/v1/trigger", "trigger", _trigger),
    Endpoint("POST", "/v1/enable", "enable", _enable),
    Endpoint("POST", "/v1/disable", "disable", _disable),
    Endpoint("POST", "/v1/backfill", "backfill", _backfill),
    Endpoint("POST", "/v1/delete", "delete", _delete),
    Endpoint("POST", "/v1/cancel", "cancel", _cancel),
    Endpoint("POST", "/v1/freeze", "freeze", partial(_set_frozen, frozen=True)),
    Endpoint("POST", "/v1/unfreeze", "unfreeze", partial(_set_frozen, frozen=False)),
    Endpoint("POST", "/v1/clock/accept", "clock accept", _accept_clock),
    Endpoint("POST", "/v1/attest", "attest", _attest),
    Endpoint("POST", "/v1/attest/incarnation", "attest", _attest_incarnation),
    Endpoint("POST", "/v1/voters/replace", "voter replace", _replace),
)


def _of_schedule(request: Request, form: type[N]) -> N:
    known(request, set())
    body = body_of(request, form)
    demand(request.principal, body.namespace)
    return body
