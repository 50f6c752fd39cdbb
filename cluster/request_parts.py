"""The parts of an HTTP request, read within their bounds."""

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from cluster.problem import Problem

BODY_S: Final = 15.0


async def body_of(request: web.BaseRequest, max_bytes: int) -> bytes:
    """Read the body, but never more than the limit.

    Raises:
        Problem: 413 for a longer body, 408 for one that does not come, 400 for one that breaks off.
    """
    too_large = Problem(413, "Content Too Large", f"The body is longer than {max_bytes} bytes.", "not_done")
    if (request.content_length or 0) > max_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > max_bytes:
                    raise too_large
    except TimeoutError:
        raise Problem(408, "Request Timeout", f"The body did not come within {BODY_S:g} s.", "not_done") from None
    except (web.RequestPayloadError, ConnectionError):
        raise Problem(400, "Bad Request", "The body broke off or is wrongly framed.", "not_done") from None
    return bytes(body)


def query_of(request: web.BaseRequest) -> Mapping[str, str]:
    """Return the query parameters, decoded.

    Raises:
        Problem: 400 for one that is given twice, since two readers would take different ones.
    """
    query: dict[str, str] = {}
    for name, value in request.query.items():
        if name in query:
            raise Problem(400, "Bad Request", f"The query parameter {name!r} is given twice.", "not_done")
        query[name] = value
    return query


def headers_of(request: web.BaseRequest) -> Mapping[str, str]:
    """Return the headers by lower-case name; repeated ones are joined by a comma, as RFC 9110 has it."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    return headers
