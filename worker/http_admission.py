"""The admission port over HTTP (aiohttp)."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import aiohttp
import msgspec

from worker.client import NotAnswered, Rejected, ReplyLost, Route, Unreachable
from worker.protocol import Answer, Answers, Fences, NotOwner, Permits, Poll, PollReply, Reports

MAX_REPLY_BYTES: Final = 64 << 20  # 1,000 claims with targets of at most 64 KiB
_CONNECT_S: Final = 2.0
_REPLY_S: Final = 5.0
_MAX_RETRY_AFTER_S: Final = 30.0
_MISDIRECTED: Final = 421
_OK: Final = 200
_SERVER_FAULT: Final = 500
_MAX_WORDS: Final = 400

T = TypeVar("T")


class HttpAdmission:
    """Sends each message to the owner, which it looks for among the configured URLs: implements `client.Admission`.

    Use as an async context manager. Redirects and proxies of the environment are not followed; the bearer goes to the
    configured URLs only, and appears in no error and no repr.
    """

    def __init__(self, urls: Sequence[str], token: bytes) -> None:
        """Keep the URLs (scheme, host and port, perhaps a path prefix) and the worker's bearer."""
        self._route = Route(url.rstrip("/") for url in urls)
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._token.decode('ascii')}", "Content-Type": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def poll(self, message: Poll) -> PollReply:
        """Make contact (see `client.Admission`)."""
        return await self._send("/v1/poll", msgspec.json.encode(message), PollReply, message.wait_s + _REPLY_S)

    async def permits(self, message: Permits) -> Sequence[Answer]:
        """Ask for permits (see `client.Admission`)."""
        return await self._ask("/v1/permits", msgspec.json.encode(message), len(message.items))

    async def fences(self, message: Fences) -> Sequence[Answer]:
        """Ask for fences (see `client.Admission`)."""
        return await self._ask("/v1/fences", msgspec.json.encode(message), len(message.items))

    async def reports(self, message: Reports) -> Sequence[Answer]:
        """Report (see `client.Admission`)."""
        return await self._ask("/v1/reports", msgspec.json.encode(message), len(message.items))

    async def _ask(self, path: str, body: bytes, count: int) -> Sequence[Answer]:
        answers = await self._send(path, body, Answers, _REPLY_S)
        if len(answers.items) != count:
            raise ReplyLost(f"{path}: {len(answers.items)} answers came to {count} items")
        return answers.items

    async def _send(self, path: str, body: bytes, form: type[T], within_s: float) -> T:
        """Try each URL until one takes the message; a loss after it may have been taken ends the round."""
        tried: list[str] = []
        for _ in self._route.order():
            url = next((each for each in self._route.order() if each not in tried), None)
            if url is None:
                break
            tried.append(url)
            try:
                return await self._send_to(url, path, body, form, within_s)
            except Unreachable:
                continue
            except NotAnswered:
                self._route.failed(url)
                raise
        raise Unreachable(f"no owner at {', '.join(tried)}")

    async def _send_to(self, url: str, path: str, body: bytes, form: type[T], within_s: float) -> T:
        assert self._session is not None, "entered as a context manager"
        limits = aiohttp.ClientTimeout(total=within_s, sock_connect=_CONNECT_S)
        try:
            async with self._session.post(url + path, data=body, timeout=limits, allow_redirects=False) as reply:
                status, headers, raw = reply.status, reply.headers, await _read(reply)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as fault:
            self._route.failed(url)
            raise Unreachable(f"{url}: no connection ({type(fault).__name__})") from fault
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            raise ReplyLost(f"{url}{path}: the reply was lost ({type(fault).__name__})") from fault
        return self._understand(url, status, headers, raw, form)

    def _understand(self, url: str, status: int, headers: Mapping[str, str], raw: bytes, form: type[T]) -> T:
        try:
            if status == _OK:
                return msgspec.json.decode(raw, type=form)
            if status == _MISDIRECTED:
                self._route.hinted(url, msgspec.json.decode(raw, type=NotOwner).urls)
                raise Unreachable(f"{url}: not the owner")
        except msgspec.MsgspecError as fault:
            raise ReplyLost(f"{url}: its reply cannot be read: {fault}") from fault
        problem = _problem(raw)
        said = ": ".join(part for part in (f"{url}: status {status}", problem.title, problem.words) if part)
        pause_s = _retry_after_s(headers)
        if status >= _SERVER_FAULT and problem.certainty != "not_done":
            raise ReplyLost(said, retry_after_s=pause_s)
        raise Rejected(said, retry_after_s=pause_s)


class _Problem(msgspec.Struct):
    """The members of an RFC 9457 body that matter here."""

    title: str = ""
    certainty: str = ""
    detail: str = ""

    @property
    def words(self) -> str:
        """The detail for whoever reads this worker's log: one printable line of bounded length."""
        return "".join(letter if letter.isprintable() else " " for letter in self.detail[:_MAX_WORDS])


def _problem(raw: bytes) -> _Problem:
    try:
        return msgspec.json.decode(raw, type=_Problem)
    except msgspec.MsgspecError:
        return _Problem()


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    said = headers.get("Retry-After", "")
    return min(float(said), _MAX_RETRY_AFTER_S) if said.isascii() and said.isdigit() else None


async def _read(reply: aiohttp.ClientResponse) -> bytes:
    """Return the whole body, of bounded size."""
    raw = bytearray()
    async for chunk in reply.content.iter_any():
        raw += chunk
        if len(raw) > MAX_REPLY_BYTES:
            raise aiohttp.ClientPayloadError("the reply is too large")
    return bytes(raw)
