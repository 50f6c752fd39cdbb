"""One voter's management: a read is the owner's answer where one can be reached, a change is never guessed at.

A voter that does not own relays a request once, with the caller's own bearer, and never relays what was relayed to it.
"""

import asyncio
import sqlite3
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote, urlencode

import structlog

from cluster.listener import Reply, Request
from cluster.outcome import NotApplied, OutcomeUnknown
from cluster.ports import Clock, Randomness
from cluster.problem import Problem
from cluster.relay import RelayRequest, ReplyLost, Unreachable
from runner.checkpoint import queries
from runner.checkpoint.ops import AttestOp, CancelOp, Op, Operation
from runner.management.asked import Change, Page, Read, Replacement, Steps, Weighed
from runner.management.asking import Endpoint
from runner.management.keys import operation_of, uuid7
from runner.management.metrics import CONTENT_TYPE, exposition
from runner.management.ports import Member, Owner, Relay
from runner.management.reading import visible_run
from runner.management.replacing import replaced
from runner.management.replies import STALE, answered, decided, not_applied, unavailable, uncertain
from runner.management.status import status_form
from runner.management.words import FIRST_ELECTION
from runner.trusted_time import ClockState

BARRIER_S: Final = 3.0
UNAVAILABLE: Final = 503

_log = structlog.get_logger("runner.management")


@dataclass(frozen=True, slots=True, kw_only=True)
class Management:
    """The handlers of the management listener, and of what other voters relay.

    Attributes:
        name: this voter's name.
        timing: every length of time in force, seconds, for `status`.
    """

    name: str
    node: Member
    owner: Owner
    relay: Relay
    clock: Clock
    randomness: Randomness
    timing: Mapping[str, float]

    async def answer(self, endpoint: Endpoint, request: Request) -> Reply:
        """Answer a caller of this voter's own listener.

        Blocks: for a read at most `BARRIER_S` or the relay's limit; for a change until its outcome is known or lost.
        Idempotent: a change is, by its key.

        Raises:
            Problem: refused, not done, or of unknown outcome; it says which.
        """
        asked = endpoint.parse(request)
        if isinstance(asked, Read):
            return await self._read(asked, request)
        if self.owner.drives:
            return await self._change(asked, request)
        return await self._relay_change(request)

    async def answer_relayed(self, endpoint: Endpoint, request: Request) -> Reply:
        """Answer what another voter relayed: as the owner, or not at all.

        Raises:
            Problem: as `answer`; 503 `not_done` if this voter does not own (any more).
        """
        asked = endpoint.parse(request)
        if not self.owner.drives:
            raise unavailable(f"{self.name} does not own the checkpoint")
        if not isinstance(asked, Read):
            return await self._change(asked, request)
        reply = await self._read_as_owner(asked)
        if reply is None:
            raise unavailable(f"{self.name} could not confirm that it still leads")
        return reply

    async def status(self, request: Request) -> Reply:
        """Answer with this voter's own view, whoever owns."""
        if request.query:
            raise Problem(400, "Bad Request", "status takes no query parameters.", "not_done")
        return answered(
            await self.node.read(partial(status_form, status=self.node.status(), owner=self.owner, timing=self.timing))
        )

    async def metrics(self, request: Request) -> Reply:
        """Answer with what `status` says in numbers, as Prometheus reads them."""
        if request.query:
            raise Problem(400, "Bad Request", "metrics takes no query parameters.", "not_done")
        form = partial(status_form, status=self.node.status(), owner=self.owner, timing=self.timing)
        return Reply(body=exposition(await self.node.read(form)), content_type=CONTENT_TYPE)

    async def healthz(self, _: Request) -> Reply:
        """Answer that this process serves."""
        return answered({"healthy": True})

    async def readyz(self, _: Request) -> Reply:
        """Answer whether this voter sees a leader and can do its part: 200, else 503 and why not.

        An owner that does not believe the clocks cannot: nothing new runs until they agree or are accepted.
        """
        status = self.node.status()
        why = status.trouble or (None if status.leader is not None else "this voter knows of no leader")
        if why is None and self.owner.drives and self.owner.clock_state() == ClockState.STEPPED.value:
            why = "clock_stepped: the clocks jumped, and nothing is planned; set them right, or run fencepost clock accept"
        if why is None:
            return answered({"ready": True, "leader": status.leader})
        return Reply(UNAVAILABLE, answered({"ready": False, "leader": status.leader, "why": why}).body)

    async def _read(self, asked: Read, request: Request) -> Reply:
        """Answer as the owner or through it; where neither can be had, from this voter's own checkpoint, and say so."""
        reply = await (self._read_as_owner(asked) if self.owner.drives else self._read_through_owner(request))
        if reply is not None:
            return reply
        applied_index = self.node.status().applied_index
        try:
            return await self._whole(asked, stale_index=applied_index)
        except Problem as problem:
            headers = {**problem.headers, STALE: str(applied_index)}
            raise Problem(
                problem.status, problem.title, problem.detail, problem.certainty, headers=headers
            ) from problem

    async def _read_as_owner(self, asked: Read) -> Reply | None:
        """Answer linearizably; None if this voter cannot confirm within `BARRIER_S` that it still leads."""
        try:
            async with asyncio.timeout(BARRIER_S):
                await self.node.barrier()
        except (NotApplied, OutcomeUnknown, TimeoutError):
            return None
        return await self._whole(asked)

    async def _read_through_owner(self, request: Request) -> Reply | None:
        owner = self._other_owner()
        if owner is None or _is_local(request):
            return None
        try:
            reply = await self.relay.relay(owner, _relayed(request))
        except (Unreachable, ReplyLost):
            return None
        return None if reply.status == UNAVAILABLE else reply

    async def _whole(self, asked: Read, stale_index: int | None = None) -> Reply:
        """Return what was asked for, worked out as far as it is not yet."""
        form = await self._worked_out(asked)
        if not isinstance(form, Page):
            return answered(form, stale_index=stale_index)
        rows: list[object] = []
        for row in form.rows:
            rows.append(row)
            if len(rows) % form.at_once == 0:
                await asyncio.sleep(0)
        return answered(rows, stale_index=stale_index, next_page=form.next)

    async def _worked_out(self, found: object) -> object:
        """Return what a query, and the steps and queries that follow from it, come to; all else runs between steps."""
        while isinstance(found, Read | Generator):
            found = await (self.node.read(found.query) if isinstance(found, Read) else _stepped(found))
        return found

    async def _weighed(self, asked: Weighed, operation: Operation) -> Change:
        """Return the change that the checkpoint as it stands makes of a request.

        A key whose result is on record is answered with that, whatever has become of the rest since.
        """

        def query(db: sqlite3.Connection) -> object:
            kept = queries.kept_operation(db, operation.principal, operation.key)
            return asked.query(db) if kept is None else asked.again

        change = await self._worked_out(Read(query))
        assert isinstance(change, Change), "what is weighed is a change"
        return change

    async def _change(self, asked: Change | Weighed | Replacement, request: Request) -> Reply:
        """Submit the op here; its result, or how certain it is that there is none."""
        now_ms = self.clock.wall_ms()
        operation = operation_of(request, now_ms)
        if isinstance(asked, Replacement):
            return await replaced(self.node, asked, request.principal.name)
        if isinstance(asked, Weighed):
            asked = await self._weighed(asked, operation)
        op = asked.build(operation, lambda: uuid7(now_ms, self.randomness))
        await self._demand_run(op, request)
        said = _log.bind(principal=request.principal.name, path=request.path, key=operation.key)
        try:
            result = await self.owner.submit(op)
        except NotApplied as fault:
            said.info("change not done", why=fault.why.value)
            raise not_applied(fault) from fault
        except OutcomeUnknown as fault:
            said.warning("change of unknown outcome")
            raise uncertain("Leadership ended while the change was pending") from fault
        said.info("change decided", kind=result.kind, reason=result.reason, again=result.again)
        return decided(result, asked.says)

    async def _relay_change(self, request: Request) -> Reply:
        """Hand a change to the owner, once; whatever it answers is the answer."""
        operation_of(request, self.clock.wall_ms())  # a key that the owner would refuse is refused here
        owner = self._other_owner()
        if owner is None:
            raise unavailable(f"No voter owns the checkpoint now; try again in a moment ({FIRST_ELECTION})")
        if _is_local(request):
            raise unavailable(
                f"{owner} owns the checkpoint, and {self.name} passes on only what carries a credential of its own; "
                f"say it again with --credential FILE, or at the console of {owner}"
            )
        try:
            return await self.relay.relay(owner, _relayed(request))
        except Unreachable as fault:
            raise unavailable(f"The owner {owner} cannot be reached from {self.name}; try another voter") from fault
        except ReplyLost as fault:
            raise uncertain(f"The answer of the owner {owner} was lost") from fault

    async def _demand_run(self, op: Op, request: Request) -> None:
        """Refuse a run outside the principal's namespaces, in the words for a run that does not exist."""
        if request.principal.namespaces is not None and isinstance(op, CancelOp | AttestOp):
            await self.node.read(partial(visible_run, principal=request.principal, run_id=op.run_id))

    def _other_owner(self) -> str | None:
        owner = self.owner.owner()
        return None if owner == self.name else owner


async def _stepped(steps: Steps[object]) -> object:
    """Take every step, and return what they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)


def _is_local(request: Request) -> bool:
    """Tell whether the caller has no bearer: another voter, which judges every caller anew, would refuse it."""
    return "authorization" not in request.headers


def _relayed(request: Request) -> RelayRequest:
    """Return a request as it goes to the owner: the caller's bearer, key and body as they came."""
    query = urlencode(request.query)
    return RelayRequest(
        method=request.method,
        path=quote(request.path) + (f"?{query}" if query else ""),
        caller=request.headers.get("authorization", "").encode("utf-8", "surrogateescape"),
        body=request.body,
        idempotency_key=request.headers.get("idempotency-key"),
        content_type=request.content_type or "application/json",
    )
