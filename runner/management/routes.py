"""The management listener's routes, and the end of a relay that another voter's caller came over."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from cluster.bearer import Bearers
from cluster.listener import Reply, Request, Route, forbidden
from cluster.problem import Problem, unauthorized
from cluster.relay import RelayRequest
from cluster.route_table import RouteTable
from runner.management.asking import ENDPOINTS, Endpoint
from runner.management.authorization import ALLOWED
from runner.management.service import Management

MAX_PARAMETERS: Final = 16


def management_routes(management: Management) -> list[Route]:
    """Return every route of the management listener."""
    own = [
        Route("GET", "/v1/status", ALLOWED["status"], management.status),
        Route("GET", "/metrics", ALLOWED["metrics"], management.metrics),
        Route("GET", "/healthz", ALLOWED["health"], management.healthz),
        Route("GET", "/readyz", ALLOWED["health"], management.readyz),
    ]
    return own + [
        Route(each.method, each.path, ALLOWED[each.command], partial(management.answer, each)) for each in ENDPOINTS
    ]


def relay_handler(management: Management, bearers: Bearers) -> Callable[[RelayRequest], Awaitable[Reply]]:
    """Return the receiving end of a relay, for `cluster_routes`.

    Args:
        bearers: of the management listener: the caller is judged here anew, whatever the sending voter thought of it.
    """
    return RelayEnd(management, bearers).answer


@dataclass(frozen=True, slots=True)
class RelayEnd:
    """Answers a relayed request as the owner; never relays it again."""

    management: Management
    bearers: Bearers

    async def answer(self, relayed: RelayRequest) -> Reply:
        """Judge the caller, then answer.

        Raises:
            Problem: 401, 404, 405, 403 as a listener would, then as `Management.answer_relayed`.
        """
        principal = self.bearers.judge([relayed.caller])
        if principal is None:
            raise unauthorized()
        path, _, query = relayed.path.partition("?")
        endpoint, params = _ENDPOINTS.find(relayed.method, path)
        if principal.role not in ALLOWED[endpoint.command]:
            raise forbidden(principal.role, ALLOWED[endpoint.command])
        return await self.management.answer_relayed(
            endpoint,
            Request(
                method=relayed.method,
                path=_path(endpoint, params),
                params=params,
                query=_query(query),
                headers={} if relayed.idempotency_key is None else {"idempotency-key": relayed.idempotency_key},
                body=relayed.body,
                content_type=relayed.content_type,
                principal=principal,
            ),
        )


_ENDPOINTS: Final[RouteTable[Endpoint]] = RouteTable((each.method, each.path, each) for each in ENDPOINTS)


def _path(endpoint: Endpoint, params: dict[str, str]) -> str:
    """Return the decoded path, as the listener that was asked first saw it: operation digests cover it."""
    return endpoint.path.format(**params)


def _query(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=MAX_PARAMETERS)
    except ValueError as fault:
        raise Problem(400, "Bad Request", "The query is malformed.", "not_done") from fault
    query = dict(pairs)
    if len(query) != len(pairs):
        raise Problem(400, "Bad Request", "A query parameter is given twice.", "not_done")
    return query
