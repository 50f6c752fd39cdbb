"""The right to submit one attempt to an engine, once."""

from typing import Final, NoReturn, final

MINT: Final = object()
"""Needed to make a capability; used by `ledger.py` alone (a test looks for other uses)."""


class CapabilityMisuse(Exception):
    """A launch capability was made, copied or spent where that is not allowed; nothing was launched by it."""


@final
class LaunchCapability:
    """Single-use permission to launch one attempt: made only by `Ledger.consume`, spent only by `Engine.submit`.

    It stands for a permit that the quorum committed and that this ledger has durably used up. It lives in one
    process: it cannot be copied, pickled or used twice, so one consumption leads to at most one submission.
    """

    __slots__ = ("_attempt", "_run_id", "_spent", "_token")

    def __init__(self, run_id: str, attempt: int, token: int, *, mint: object) -> None:
        if mint is not MINT:
            raise CapabilityMisuse("only the ledger makes launch capabilities")
        self._run_id = run_id
        self._attempt = attempt
        self._token = token
        self._spent = False

    def spend(self, run_id: str, attempt: int) -> int:
        """Use the capability up for exactly this attempt.

        Returns:
            The fencing token of its permit.

        Raises:
            CapabilityMisuse: it was spent before, or stands for another attempt; the caller must launch nothing.
        """
        if self._spent:
            raise CapabilityMisuse(f"the launch capability of {self._run_id}.{self._attempt} was spent before")
        if (run_id, attempt) != (self._run_id, self._attempt):
            raise CapabilityMisuse(
                f"the launch capability of {self._run_id}.{self._attempt} does not cover {run_id}.{attempt}"
            )
        self._spent = True
        return self._token

    def __copy__(self) -> NoReturn:
        raise CapabilityMisuse("a launch capability cannot be copied")

    def __deepcopy__(self, _memo: object) -> NoReturn:
        raise CapabilityMisuse("a launch capability cannot be copied")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise CapabilityMisuse("a launch capability cannot be pickled")
