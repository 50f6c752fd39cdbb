"""The admission handlers over HTTP: bodies in and out, and which status each outcome has."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from cluster.bearer import Principal
from cluster.listener import Reply, Request, Route
from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.problem import Problem
from runner.admission.lineage import LineageRefused
from runner.admission.service import Admission
from runner.contacts import IncarnationRefused
from worker.protocol import MAX_BODY_BYTES, VERSION, Answers, Fences, NotOwner, Permits, Poll, PollReply, Reports

ROLES: Final = frozenset({"worker"})
MAX_ADMISSION_BODY_BYTES: Final = MAX_BODY_BYTES
RETRY_AFTER_S: Final = 1
REFUSED_S: Final = 10  # until a person has put it right

_JSON: Final = "application/json"
_MSGPACK: Final = "application/msgpack"

Message = TypeVar("Message", Poll, Permits, Fences, Reports)
Handler = Callable[[Principal, Message], Awaitable[PollReply | Answers | NotOwner]]


def admission_routes(admission: Admission) -> list[Route]:
    """Return the routes of the admission listener; give it `MAX_ADMISSION_BODY_BYTES` as its body limit."""
    return [
        _route("/v1/poll", Poll, admission.poll),
        _route("/v1/permits", Permits, admission.permits),
        _route("/v1/fences", Fences, admission.fences),
        _route("/v1/reports", Reports, admission.reports),
    ]


def _route(path: str, kind: type[Message], handler: Handler[Message]) -> Route:
    async def answer(request: Request) -> Reply:
        message = _decode(request, kind)
        try:
            words = await handler(request.principal, message)
        except (NotApplied, OutcomeUnknown, IncarnationRefused, LineageRefused) as fault:
            raise problem_of(fault) from fault
        return _encode(request, words, status=421 if isinstance(words, NotOwner) else 200)

    return Route("POST", path, ROLES, answer)


def problem_of(fault: NotApplied | OutcomeUnknown | IncarnationRefused | LineageRefused) -> Problem:
    """Return what a caller is told of an operation that did not become durable, or may not have."""
    match fault:
        case IncarnationRefused():
            detail = f"{fault}; give each process a worker name and a data directory of its own."
            return Problem(409, "Incarnation Refused", detail, "not_done", retry_after_s=RETRY_AFTER_S)
        case LineageRefused():
            return Problem(409, "Lineage Refused", f"Nothing was done: {fault}.", "not_done", retry_after_s=REFUSED_S)
        case OutcomeUnknown():
            detail = "Leadership ended before the outcome was known; ask again, the same request is answered the same."
            return Problem(503, "Outcome Unknown", detail, "unknown", retry_after_s=RETRY_AFTER_S)
        case NotApplied(why=Why.QUEUE_FULL):
            detail = "The owner has too much waiting; come back a little later."
            return Problem(429, "Too Many Requests", detail, "not_done", retry_after_s=RETRY_AFTER_S)
        case NotApplied(why=Why.TOO_LARGE):
            return Problem(413, "Content Too Large", f"Nothing was applied: {fault}.", "not_done")
        case NotApplied():
            detail = f"Nothing was applied: {fault}. Ask again, or ask another voter."
            return Problem(503, "Not Applied", detail, "not_done", retry_after_s=RETRY_AFTER_S)


def _decode(request: Request, kind: type[Message]) -> Message:
    """Return the message in a body.

    Raises:
        Problem: 415 for another content type, 400 for a body that is no such message or has another version.
    """
    try:
        match request.content_type:
            case "" | "application/json":
                message = msgspec.json.decode(request.body, type=kind)
            case "application/msgpack":
                message = msgspec.msgpack.decode(request.body, type=kind)
            case other:
                detail = f"Send {_JSON} or {_MSGPACK}, not {other[:64]!r}."
                raise Problem(415, "Unsupported Media Type", detail, "not_done")
    except msgspec.MsgspecError as fault:
        raise Problem(400, "Bad Request", f"The body is no {kind.__name__}: {fault}.", "not_done") from None
    except (RecursionError, UnicodeDecodeError) as fault:
        raise Problem(400, "Bad Request", f"The body is no {kind.__name__}.", "not_done") from fault
    if message.version != VERSION:
        detail = f"This voter speaks version {VERSION} of the admission protocol, not {message.version}."
        raise Problem(400, "Unknown Version", detail, "not_done")
    return message


def _encode(request: Request, words: PollReply | Answers | NotOwner, *, status: int) -> Reply:
    if request.content_type == _MSGPACK:
        return Reply(status, msgspec.msgpack.encode(words), _MSGPACK)
    return Reply(status, msgspec.json.encode(words), _JSON)
