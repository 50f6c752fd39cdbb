"""The management API, called from outside: one address after another, and never a guess about a change.

A connection that cannot be made was certainly not used: the next address is tried. Once a byte of a change may have
left, only a whole answer says what became of it; without one the outcome is unknown, and only the person repeats the
change, with the same key. Reads are tried at the next address whatever happened.
"""

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from fencepost.config import ClientConfig
from fencepost.faults import Failure, Uncertain, Unfitting

CONNECT_S: Final = 3.0
ANSWER_S: Final = 20.0
MAX_ANSWER_BYTES: Final = 64 << 20
STALE: Final = "Fencepost-Stale"
NEXT: Final = "Fencepost-Next"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a change that was certainly not done is tried again (no owner while one is elected).

    Attributes:
        mono_s: a monotonic clock, seconds.
        pause: waits so many seconds.
        total_s: no further try begins after so long.
        step_s: pause between two rounds over the addresses.
    """

    mono_s: Callable[[], float]
    pause: Callable[[float], None]
    total_s: float = 10.0
    step_s: float = 0.3


@dataclass(frozen=True, slots=True)
class Answer:
    """What a read or a change that took effect was answered with.

    Attributes:
        stale_index: the applied index of a voter that answered from its own checkpoint because no owner was reached.
        next_page: of a list that may go on: what to ask for next.
    """

    content: Any
    stale_index: str | None = None
    next_page: str | None = None


class _Lost(Exception):
    """The request, or a part of it, was sent, and no whole answer came back."""


class _Problem(msgspec.Struct):
    """The members of an RFC 9457 answer that we read."""

    title: str = ""
    detail: str = ""
    certainty: str = ""


@dataclass(frozen=True, slots=True)
class _Reply:
    url: str
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def problem(self) -> _Problem:
        try:
            return msgspec.json.decode(self.body, type=_Problem)
        except msgspec.MsgspecError:
            return _Problem()

    @property
    def retry_after_s(self) -> float:
        """When the voter asks to be asked again, seconds from now; 0 where it does not say."""
        stated = self.headers.get("Retry-After", "")
        return float(stated) if stated.isascii() and stated.isdigit() else 0.0

    def words(self) -> str:
        """Return what the answer says, as one printable line."""
        problem = self.problem
        said = problem.detail or problem.title or http.client.responses.get(self.status, "no words")
        stale = f", stale: its own checkpoint at applied index {self.headers[STALE]}" if STALE in self.headers else ""
        line = f"{said} (HTTP {self.status} from {self.url}{stale})"
        return "".join(letter if letter.isprintable() else " " for letter in line)


@dataclass(frozen=True, slots=True)
class Client:
    """One person's calls. The token is in no text and no repr."""

    config: ClientConfig
    patience: Patience

    def read(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        """Ask for something; the first address that can answer does.

        Blocks: at most `CONNECT_S` to connect, and `ANSWER_S` between two pieces of an answer, per address.

        Raises:
            Failure: refused, or no address answered.
        """
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, b"", {})

    def read_all(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        """Ask for a list, page by page; one page from a voter's own checkpoint makes the whole such an answer.

        Blocks and raises as `read`, for each page.
        """
        answer = self.read(path, query)
        rows, stale_index = answer.content, answer.stale_index
        while answer.next_page is not None and isinstance(rows, list):
            answer = self.read(path, {**(query or {}), "after": answer.next_page})
            rows = [*rows, *answer.content] if isinstance(answer.content, list) else answer.content
            stale_index = stale_index or answer.stale_index
        return Answer(rows, stale_index)

    def rehearse(self, path: str, body: bytes, key: str) -> Answer:
        """Ask what a change would do; changes nothing, so that it is tried everywhere, as a read is."""
        return self._ask("POST", f"{path}?dry_run=true", body, {"Idempotency-Key": key})

    def ask(self, path: str, body: bytes) -> Answer:
        """Ask what a body says that changes nothing; tried everywhere, as a read is."""
        return self._ask("POST", path, body, {})

    def change(self, path: str, body: bytes, key: str) -> Answer:
        """Ask for a change under a key.

        Blocks: until it was answered; while it is certainly not done and may soon be, for `patience.total_s`.
        Idempotent: a repeat with the same key and body is answered with the first result.

        Raises:
            Failure: certainly not done: refused, or no address could be connected to.
            Uncertain: sent, and no whole answer came back; Ctrl-C while waiting for it is the same.
        """
        began_s = self.patience.mono_s()
        while True:
            match self._change_once(path, body, key):
                case Answer() as answer:
                    return answer
                case None:
                    raise Failure(self._nobody())
                case _Reply() as not_now:
                    pause_s = max(self.patience.step_s, not_now.retry_after_s)
                    if self.patience.mono_s() + pause_s - began_s > self.patience.total_s:
                        raise Failure(f"not done: {not_now.words()}")
                    self.patience.pause(pause_s)

    def _change_once(self, path: str, body: bytes, key: str) -> Answer | _Reply | None:
        """Offer a change to each address until one takes it; else return the last "not now", None if nobody is there."""
        last = None
        for url in self.config.management_urls:
            connection = _connected(url)
            if connection is None:
                continue
            try:
                reply = self._exchange(url, connection, "POST", path, body, {"Idempotency-Key": key})
            except (_Lost, KeyboardInterrupt) as lost:
                raise Uncertain(key, f"{url}: {str(lost) or 'interrupted'}") from lost
            if reply.status < http.HTTPStatus.BAD_REQUEST:
                return _content(reply, lost=Uncertain(key, f"{url}: the answer cannot be read"))
            if _is_uncertain(reply):
                raise Uncertain(key, reply.words())
            if not _is_passing(reply):
                raise _refusal(reply)
            last = reply
        return last

    def _ask(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        trouble = None
        for url in self.config.management_urls:
            connection = _connected(url)
            if connection is None:
                continue
            try:
                reply = self._exchange(url, connection, method, target, body, headers)
            except _Lost as lost:
                trouble = f"{url}: {lost}"
                continue
            if reply.status < http.HTTPStatus.BAD_REQUEST:
                return _content(reply, lost=Failure(f"{url}: the answer cannot be read"))
            if reply.status < http.HTTPStatus.INTERNAL_SERVER_ERROR and not _is_passing(reply):
                raise _refusal(reply)
            trouble = reply.words()
        raise Failure(trouble or self._nobody())

    def _nobody(self) -> str:
        urls = ", ".join(self.config.management_urls)
        return f"no voter can be connected to at {urls}; is one running, and is this its machine?"

    def _exchange(
        self,
        url: str,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes,
        headers: Mapping[str, str],
    ) -> _Reply:
        """Send one request on a fresh connection and return its whole answer; what fails here may have been sent."""
        bearer = {"Authorization": f"Bearer {self.config.token.decode('ascii')}", "Content-Type": "application/json"}
        try:
            connection.request(method, target, body or None, {**headers, **bearer})
            answer = connection.getresponse()
            content = answer.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as fault:
            raise _Lost(f"no whole answer ({type(fault).__name__})") from fault
        finally:
            connection.close()
        if len(content) > MAX_ANSWER_BYTES:
            raise _Lost(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        if answer.length:  # a bounded read does not raise when the end is missing
            raise _Lost("no whole answer (it was cut off)")
        return _Reply(url, answer.status, answer.headers, content)


def _connected(url: str) -> http.client.HTTPConnection | None:
    """Return an open connection (TLS included), or None: then nothing of a request has left this process."""
    parts = urlsplit(url)
    assert parts.hostname is not None  # the configuration was checked
    form = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = form(parts.hostname, parts.port, timeout=CONNECT_S)
    try:
        connection.connect()
    except OSError:
        connection.close()
        return None
    assert connection.sock is not None
    connection.sock.settimeout(ANSWER_S)
    return connection


def _content(reply: _Reply, lost: Exception) -> Answer:
    """Return what a good answer holds; one that is no JSON comes from something else than a voter."""
    try:
        content = json.loads(reply.body)
    except ValueError:
        raise lost from None
    return Answer(content, reply.headers.get(STALE), reply.headers.get(NEXT))


def _refusal(reply: _Reply) -> Failure:
    kind = Unfitting if reply.status == http.HTTPStatus.UNPROCESSABLE_ENTITY else Failure
    return kind(reply.words())


def _is_uncertain(reply: _Reply) -> bool:
    """Say whether a change may have been done in spite of this answer; what says nothing is believed only as a 4xx."""
    certainty = reply.problem.certainty
    return certainty == "unknown" or (not certainty and reply.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR)


def _is_passing(reply: _Reply) -> bool:
    """Say whether the same request may soon succeed: no owner yet, or a full queue."""
    return reply.status in {http.HTTPStatus.SERVICE_UNAVAILABLE, http.HTTPStatus.TOO_MANY_REQUESTS}
