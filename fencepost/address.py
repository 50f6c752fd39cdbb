"""Addresses as configuration files state them: what to listen on (`host:port`) and where to call (URLs)."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

HIGHEST_PORT: Final = 65_535

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class BadAddress(ValueError):
    """The text is no address that we take. The message never repeats it: a URL can hold a password."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener binds; port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


def listening(text: str) -> Address:
    """Return the address in `host:port` (an IPv6 host in brackets).

    Raises:
        BadAddress: there is no port, or the host is neither an IP address nor a name.
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not _is_port(port) or not is_host(bare) or bracketed(bare) != host:
        raise BadAddress('an address to listen on is a host and a port, such as "127.0.0.1:7101" or "[::1]:7101"')
    return Address(bare, int(port))


def calling(text: str) -> str:
    """Return a base URL without a slash at its end.

    Raises:
        BadAddress: not http or https, no host, a user name, a path, a query, or a port out of range.
    """
    wrong = BadAddress('an address to call is http:// or https://, a host and a port, such as "http://127.0.0.1:7101"')
    if not text.isprintable() or " " in text:  # urlsplit would drop some of these without a word
        raise wrong
    try:
        parts = urlsplit(text)
        bare = parts.scheme in {"http", "https"} and parts.path in {"", "/"} and not parts.query + parts.fragment
        if not bare or parts.hostname is None or "@" in parts.netloc or not is_host(parts.hostname) or parts.port == 0:
            raise wrong
    except ValueError:  # from urlsplit (unbalanced brackets), from .port (out of range), or our own
        raise wrong from None
    return f"{parts.scheme}://{parts.netloc}"


def is_host(text: str) -> bool:
    """Return whether a text can stand for a host: an IP address (no brackets) or a host name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host, as far as its text says."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bracketed(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(HIGHEST_PORT)) and int(text) <= HIGHEST_PORT
