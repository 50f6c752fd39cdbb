"""The port through which a worker talks to whoever owns the checkpoint, and the ways in which that can fail."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from worker.protocol import Answer, Fences, Permits, Poll, PollReply, Reports


class NotAnswered(Exception):
    """No owner answered this message; every message may be repeated, under a fresh number.

    Attributes:
        retry_after_s: how long the other side asked to wait, None if it did not.
    """

    def __init__(self, why: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class Unreachable(NotAnswered):
    """No owner took the message: connections were refused, or whoever answered does not own. It changed nothing."""


class ReplyLost(NotAnswered):
    """The message may have reached an owner: what it changed is not known until it is repeated."""


class Rejected(NotAnswered):
    """The message was answered, and refused as such (credential, form, load): it changed nothing."""


class Admission(Protocol):
    """Where a worker gets claims and permits and takes its reports. One call sends one message."""

    async def poll(self, message: Poll) -> PollReply:
        """Make contact. Blocks: as long as `wait_s` says, and a little more. Raises NotAnswered."""
        ...

    async def permits(self, message: Permits) -> Sequence[Answer]:
        """Ask for permits; one answer per item, in order. Raises NotAnswered. Idempotent per reservation."""
        ...

    async def fences(self, message: Fences) -> Sequence[Answer]:
        """Ask for fences; one answer per item, in order. Raises NotAnswered. Idempotent."""
        ...

    async def reports(self, message: Reports) -> Sequence[Answer]:
        """Report; one answer per item, in order. Raises NotAnswered. Idempotent."""
        ...


class Route:
    """Which of the configured URLs to try next. Hints may order them, and never add one."""

    def __init__(self, urls: Iterable[str]) -> None:
        """Take the admission URLs of the configuration, at least one."""
        self._urls = list(dict.fromkeys(urls))
        if not self._urls:
            raise ValueError("at least one admission URL is needed")

    def order(self) -> list[str]:
        """Return each URL once, the most promising first."""
        return list(self._urls)

    def failed(self, url: str) -> None:
        """Put a URL that did not lead to an owner last."""
        self._urls.remove(url)
        self._urls.append(url)

    def hinted(self, url: str, urls: Sequence[str]) -> None:
        """Put those of the configured URLs that a voter named as the owner's first, if it named only some."""
        self.failed(url)
        named = [each for each in self._urls if each in urls and each != url]
        self._urls = named + [each for each in self._urls if each not in named]
