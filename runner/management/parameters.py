"""What stands in a request's query and body, or the Problem (400) that says what is wrong there."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from cluster.listener import Request
from cluster.problem import Problem
from runner.calendar import BadExpression, moment_ms
from runner.checkpoint.marks import BadMark, EventMark, RunMark
from runner.checkpoint.records import RunState
from runner.management import reading

DEFAULT_ROWS: Final = 50
RIGHT_INSTANT: Final = "write 2026-12-01T10:00:00Z"
B = TypeVar("B")
M = TypeVar("M", RunMark, EventMark)


def known(request: Request, names: set[str]) -> None:
    """Return if the query has no other parameters."""
    for name in request.query:
        if name not in names:
            takes = f"takes {', '.join(sorted(names))}" if names else "takes none"
            raise bad(f"The query parameter {name!r} is unknown; {request.path} {takes}.")


def body_of(request: Request, form: type[B]) -> B:
    """Return the body."""
    if request.content_type not in {"", "application/json"}:
        raise Problem(415, "Unsupported Media Type", "Send the body as application/json.", "not_done")
    try:
        return msgspec.json.decode(request.body, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as fault:
        raise bad(f"The body is not as it should be: {fault}.") from fault


def named(request: Request, parameter: str = "schedule") -> tuple[str, str] | None:
    """Return the namespace and name of `NAMESPACE/NAME`; None without the parameter."""
    text = request.query.get(parameter)
    if text is None:
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name):
        raise bad(f"{parameter} is {text!r}; write NAMESPACE/NAME.")
    return namespace, name


def schedule(request: Request) -> tuple[str, str]:
    """Return the namespace and name that two parameters say."""
    namespace, name = request.query.get("namespace", ""), request.query.get("name", "")
    if not (namespace and name):
        raise bad("The query names no schedule; say namespace=NAMESPACE and name=NAME.")
    return namespace, name


def instant_ms(request: Request, name: str) -> int | None:
    """Return an instant in milliseconds since the epoch, UTC unless it says otherwise; None without the parameter."""
    text = request.query.get(name)
    return None if text is None else moment_of(text, name)


def moment_of(text: str, name: str) -> int:
    """Return the instant that a text names, milliseconds since the epoch; UTC unless it says otherwise.

    Raises:
        Problem: 400: it names none.
    """
    try:
        return moment_ms(text, "UTC")
    except BadExpression as fault:
        raise bad(f"{name} {text[:100]!r} is not an instant of the years 1970 to 9995; {RIGHT_INSTANT}.") from fault


def mark(request: Request, read: Callable[[str], M]) -> M | None:
    """Return where a list goes on."""
    text = request.query.get("before")
    if text is None:
        return None
    try:
        return read(text)
    except BadMark as fault:
        raise bad(f"before is {text[:100]!r}; give what Fencepost-Next of the page before said.") from fault


def state(request: Request) -> RunState | None:
    """Return the state that runs are to be in."""
    text = request.query.get("state")
    if text is None:
        return None
    try:
        return RunState(text)
    except ValueError as fault:
        raise bad(f"state is {text!r}; write one of: {', '.join(each.value for each in RunState)}.") from fault


def number(request: Request, name: str = "limit", default: int = DEFAULT_ROWS) -> int:
    """Return a number from 1 to `reading.MOST_ROWS`."""
    text = request.query.get(name, str(default))
    is_short_number = text.isascii() and text.isdigit() and len(text) <= len(str(reading.MOST_ROWS))
    if not is_short_number or not 1 <= int(text) <= reading.MOST_ROWS:
        raise bad(f"{name} is {text!r}; write 1 to {reading.MOST_ROWS}.")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Return whether a parameter is true; false without it."""
    text = request.query.get(name, "false")
    if text not in {"true", "false"}:
        raise bad(f"{name} is {text!r}; write true or false.")
    return text == "true"


def bad(detail: str) -> Problem:
    """Return the answer to a request that cannot be meant so."""
    return Problem(400, "Bad Request", detail, "not_done")
