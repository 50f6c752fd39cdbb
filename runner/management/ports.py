"""What management needs of the loop and of the other voters."""

from collections.abc import Sequence
from typing import Protocol

from cluster.listener import Reply
from cluster.relay import RelayRequest
from runner.checkpoint.ops import Op
from runner.checkpoint.results import OpResult


class Contact(Protocol):
    """A worker as the owner hears it."""

    @property
    def name(self) -> str:
        """Name of the worker."""
        ...

    @property
    def incarnation(self) -> str:
        """The process life that polled last."""
        ...

    @property
    def last_contact_s(self) -> float:
        """How long ago it polled, seconds."""
        ...


class Owner(Protocol):
    """The one serialized loop, as an adapter sees it."""

    @property
    def drives(self) -> bool:
        """Whether this voter acquired the checkpoint and drives it now."""
        ...

    @property
    def epoch(self) -> int | None:
        """The epoch under which this voter drives, or None."""
        ...

    def owner(self) -> str | None:
        """Return the owning voter's name as far as this one knows; itself if it drives."""
        ...

    async def submit(self, op: Op) -> OpResult:
        """Enqueue one op and return its own result.

        Raises:
            NotApplied: definitely not done.
            OutcomeUnknown: it may be applied now, later, or never.
        """
        ...

    def workers(self) -> Sequence[Contact]:
        """Return the workers heard of since the takeover."""
        ...

    def clock_state(self) -> str:
        """Return `ok`, `clock_stepped` or `clock_behind`."""
        ...


class Relay(Protocol):
    """The way to another voter's management, one hop over the cluster listener; `cluster.relay.RelayClient` fits."""

    async def relay(self, voter: str, request: RelayRequest, /) -> Reply:
        """Ask another voter with the caller's own bearer.

        Raises:
            Unreachable: it was definitely not handled.
            ReplyLost: it may have been handled.
        """
        ...
