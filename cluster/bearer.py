"""Who is asking: bearer tokens, judged in constant time and never shown."""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.outcome import Unfit

MIN_TOKEN_BYTES: Final = 16
MAX_TOKEN_BYTES: Final = 4096
_PRINTABLE: Final = frozenset(range(0x21, 0x7F))
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Principal:
    """A named holder of one credential.

    Attributes:
        name: what events and logs call it.
        role: "operator", "recovery", "worker" or "cluster"; a route lists the roles that it serves.
        namespaces: the tenants that it may touch, or None for all.
        pools: the pools that it may execute, or None for all.
    """

    name: str
    role: str
    namespaces: frozenset[str] | None = None
    pools: frozenset[str] | None = None


class Bearers:
    """The credentials that one listener knows; keeps digests only, so that no token can be printed from it."""

    def __init__(self, entries: Iterable[tuple[Principal, bytes]]) -> None:
        """Check and keep the credentials.

        Raises:
            Unfit: a token is too weak to be one, or two principals hold the same; names the principals, never a token.
        """
        holders: dict[bytes, Principal] = {}
        for principal, token in entries:
            _check_token(token, f"the credential of principal {principal.name!r}")
            digest = _digest(token)
            if digest in holders:
                raise Unfit(
                    f"principals {holders[digest].name!r} and {principal.name!r} hold the same token; "
                    "give each a credential file of its own"
                )
            holders[digest] = principal
        self._entries = tuple(holders.items())

    def judge(self, authorization: Sequence[bytes]) -> Principal | None:
        """Return who presented this, or None; takes the same time for every wrong answer.

        Args:
            authorization: the raw value of each Authorization header of the request, in order.
        """
        presented = _digest(_token_of(authorization))
        found = None
        for digest, principal in self._entries:
            if hmac.compare_digest(presented, digest):
                found = principal  # no early return: how far the search went must not show
        return found


def load_token(path: Path) -> bytes:
    """Read one credential file: the token, and perhaps a newline.

    Raises:
        Unfit: it cannot be read, holds no usable token, or others on this host may read or write it; names the file only.
    """
    what = f"credential file {path}"
    # Non-blocking: a named pipe without a writer must not hold up whoever names it.
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(MAX_TOKEN_BYTES + 2)
    except OSError as error:
        raise Unfit(
            f"{what} cannot be read ({error.strerror}); create it with mode 0600 or correct its path in the configuration"
        ) from None
    if mode & _OTHERS:
        raise Unfit(f"{what} is open to other users (mode {mode:04o}); run: chmod 600 {path}")
    token = content.removesuffix(b"\n").removesuffix(b"\r")
    _check_token(token, what)
    return token


def _token_of(authorization: Sequence[bytes]) -> bytes:
    """Return the presented token; empty, which is nobody's, for anything but one `Bearer` header."""
    if len(authorization) != 1:
        return b""
    scheme, _, rest = authorization[0].partition(b" ")
    return rest.strip(b" ") if scheme.lower() == b"bearer" else b""


def _check_token(token: bytes, what: str) -> None:
    if not token:
        raise Unfit(f"{what} is empty; write a random token of at least {MIN_TOKEN_BYTES} characters into it")
    if not _PRINTABLE.issuperset(token):
        raise Unfit(f"{what} holds other than printable ASCII without spaces; write a fresh random token into it")
    if not MIN_TOKEN_BYTES <= len(token) <= MAX_TOKEN_BYTES:
        raise Unfit(f"{what} has a length outside {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES}; write a fresh random token")


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
