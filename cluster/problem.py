"""The one form of an error over HTTP, which always says how certain it is."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Certainty = Literal["done", "not_done", "unknown"]

CONTENT_TYPE: Final = "application/problem+json"


class Problem(Exception):
    """A request that ends in an error, as RFC 9457 problem details.

    Attributes:
        status: HTTP status.
        title: short, the same for every occurrence of this kind of problem.
        detail: one sentence for a person: what, which thing, what to do next. Never a secret.
        certainty: what became of the request: "done", "not_done" (repeating it is safe) or "unknown".
        retry_after_s: when to come back, whole seconds, or None.
        headers: further response headers.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        certainty: Certainty,
        *,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {title}: {detail} ({certainty})")
        self.status = status
        self.title = title
        self.detail = detail
        self.certainty = certainty
        self.retry_after_s = retry_after_s
        retry = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self.headers: Mapping[str, str] = {**(headers or {}), **retry}

    def body(self) -> bytes:
        """Return the problem as JSON, for `Content-Type: application/problem+json`."""
        return msgspec.json.encode(
            {
                "type": "about:blank",
                "title": self.title,
                "status": self.status,
                "detail": self.detail,
                "certainty": self.certainty,
            }
        )


def unauthorized() -> Problem:
    """Return the one answer to every wrong bearer, so that it tells nothing about what was wrong with it."""
    return Problem(
        401,
        "Unauthorized",
        "This listener answers only requests with exactly one valid bearer token in Authorization.",
        "not_done",
        headers={"WWW-Authenticate": "Bearer"},
    )


def headers_too_large(max_header_bytes: int) -> Problem:
    """Return the answer to a request whose head exceeds the limit."""
    return Problem(
        431,
        "Request Header Fields Too Large",
        f"A header field or the request line is longer than {max_header_bytes} bytes, or there are too many.",
        "not_done",
    )
