"""Management over lines: each line becomes the request that it would be over HTTP, and gets one answer.

Whoever can write to a runner's standard input is on its host and runs as its user: such a line needs no bearer and may
ask what an operator may (DESIGN 7, "local stdin"). What a human attests needs a recovery credential, and a line that is
to be carried out by another voter needs a credential too, since the other one judges the caller anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import msgspec

from cluster.bearer import Bearers, Principal
from cluster.listener import Reply, Request, forbidden
from cluster.outcome import Unfit
from cluster.problem import Certainty, Problem
from cluster.route_table import RouteTable
from runner.management.asking import ENDPOINTS, Endpoint
from runner.management.authorization import ALLOWED, LOCAL, may_use
from runner.management.console_answers import Answer, failing, members, problem_of
from runner.management.console_words import help_lines
from runner.management.keys import uuid7
from runner.management.line_input import MAX_LINE_BYTES, Line, Trouble
from runner.management.line_requests import READ_FIRST, Parts, Values
from runner.management.replies import NEXT, STALE
from runner.management.service import Management
from runner.management.spoken import Spoken, as_said, bad, understood

_ENDPOINTS: Final[RouteTable[Endpoint]] = RouteTable((each.method, each.path, each) for each in ENDPOINTS)
_PAGE: Final = MappingProxyType({"schedules": "after", "unknown": "after", "runs": "before", "events": "before"})
RETRY_AFTER: Final = "Retry-After"
_TROUBLE: Final = MappingProxyType(
    {
        Trouble.TOO_LONG: f"The line is longer than {MAX_LINE_BYTES} bytes; nothing of it was acted on.",
        Trouble.CUT_OFF: "The input ended before the line did; nothing of it was acted on.",
    }
)


@dataclass(frozen=True, slots=True)
class Order:
    """A line that was understood and may be carried out.

    Attributes:
        headers: of its request: a change's key, and the bearer of the credential that it names.
    """

    line: int
    spoken: Spoken
    principal: Principal
    headers: dict[str, str]

    @property
    def key(self) -> str | None:
        """Return the key of a change."""
        return self.headers.get("idempotency-key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Reads lines as one principal after another; keeps nothing between them.

    Attributes:
        bearers: of the management listener; a credential that a line names is judged by them.
        read_credential: returns the token in a file that only its owner can read, or raises Unfit.
    """

    management: Management
    bearers: Bearers
    read_credential: Callable[[str], bytes]

    def order(self, line: Line) -> Order | Answer:
        """Return what a line asks for, or the answer to one that asks for nothing that can be meant or may be asked."""
        if line.trouble is not None:
            return self.refused(line, bad(_TROUBLE[line.trouble]))
        try:
            spoken = understood(line.raw)
        except Problem as problem:
            return self.refused(line, problem)
        try:
            return self._order(line, spoken)
        except Problem as problem:
            return _failed(Order(line.number, spoken, LOCAL, {}), problem)

    async def carry_out(self, order: Order) -> Answer:
        """Answer an order; blocks as the same request over HTTP does. Idempotent: a change is, by its key."""
        if order.spoken.word.command is None:
            return Answer(line=order.line, command=order.spoken.word.name, certainty="done", answer=help_lines())
        try:
            whole = await self._as_it_reads_now(order)
        except Problem as problem:
            return _failed(order, problem)
        try:
            return _answered(whole, await self._asked(whole, _parts(whole.spoken.word.parts, whole.spoken.values)))
        except Problem as problem:
            return _failed(whole, problem)

    def refused(self, line: Line, problem: Problem) -> Answer:
        """Return the answer to a line that became no order."""
        return Answer(line=line.number, certainty="not_done", problem=failing(problem, {}))

    def broken_off(self, order: Order, why: str) -> Answer:
        """Return the answer to an order that nobody waited for to the end."""
        certainty: Certainty = "not_done" if order.key is None else "unknown"
        return _failed(order, Problem(HTTPStatus.SERVICE_UNAVAILABLE, "Broken Off", why, certainty))

    def _order(self, line: Line, spoken: Spoken) -> Order:
        values = dict(spoken.values)
        headers: dict[str, str] = {}
        principal = self._principal(values.get("credential"), headers)
        if spoken.word.command is not None and not may_use(principal.role, spoken.word.command):
            if principal is LOCAL:
                detail = f"{spoken.word.name} needs a recovery credential: say --credential FILE as well."
                raise Problem(403, "Forbidden", detail, "not_done")
            raise forbidden(principal.role, ALLOWED[spoken.word.command])
        if spoken.word.is_change:
            management = self.management
            key = values.get("key") or uuid7(management.clock.wall_ms(), management.randomness)
            headers["idempotency-key"] = str(key)
        return Order(line.number, spoken, principal, headers)

    def _principal(self, credential: object, headers: dict[str, str]) -> Principal:
        if credential is None:
            return LOCAL
        try:
            bearer = b"Bearer " + self.read_credential(str(credential))
        except Unfit as unfit:
            raise Problem(401, "Unauthorized", f"{unfit}.", "not_done") from None
        principal = self.bearers.judge([bearer])
        if principal is None:
            raise Problem(401, "Unauthorized", "This voter's configuration knows no such credential.", "not_done")
        headers["authorization"] = bearer.decode("ascii")
        return principal

    async def _as_it_reads_now(self, order: Order) -> Order:
        """Return an attestation with the revisions of the rows that it is about, where the line does not say them."""
        spoken = order.spoken
        read = READ_FIRST.get(spoken.word.name)
        if read is None or read.fills in spoken.values:
            return order
        reply = await self._asked(order, _parts(read.parts, spoken.values))
        if reply.status >= HTTPStatus.BAD_REQUEST:
            raise problem_of(reply)
        filled = read.found(msgspec.json.decode(reply.body), spoken.values)
        if not filled:
            raise Problem(404, "Not Found", read.else_say, "not_done")
        return replace(order, spoken=replace(spoken, values={**spoken.values, read.fills: filled}))

    async def _asked(self, order: Order, parts: Parts) -> Reply:
        request = Request(
            method=parts.method,
            path=parts.path.format(**parts.params),
            params=parts.params,
            query=parts.query,
            headers=order.headers,
            body=parts.body,
            content_type="application/json",
            principal=order.principal,
        )
        if parts.path == "/v1/status":
            return await self.management.status(request)
        endpoint, _ = _ENDPOINTS.find(parts.method, parts.path)
        return await self.management.answer(endpoint, request)


def _parts(build: Callable[[Values], Parts], values: Values) -> Parts:
    try:
        return build(values)
    except (msgspec.MsgspecError, OverflowError, RecursionError) as fault:
        raise bad(f"That cannot be sent: {fault}.") from None


def _answered(order: Order, reply: Reply) -> Answer:
    """Return a reply as an answer; over HTTP its status says what became of it."""
    if reply.status >= HTTPStatus.BAD_REQUEST:
        return _failed(order, problem_of(reply), members(reply))
    stale, following = reply.headers.get(STALE), reply.headers.get(NEXT)
    return Answer(
        line=order.line,
        command=order.spoken.word.name,
        certainty="done",
        key=order.key,
        stale_index=None if stale is None else int(stale),
        more=None if following is None else as_said(order.spoken, {_PAGE[order.spoken.word.name]: following}),
        answer=msgspec.json.decode(reply.body),
    )


def _failed(order: Order, problem: Problem, told: Mapping[str, object] = MappingProxyType({})) -> Answer:
    stale = problem.headers.get(STALE)
    may_repeat = order.key is not None and (problem.certainty == "unknown" or RETRY_AFTER in problem.headers)
    return Answer(
        line=order.line,
        command=order.spoken.word.name,
        certainty=problem.certainty,
        key=order.key,
        repeat=_repeat(order) if may_repeat else None,
        stale_index=None if stale is None else int(stale),
        problem=failing(problem, told),
    )


def _repeat(order: Order) -> object:
    return as_said(order.spoken, {"key": order.key})
