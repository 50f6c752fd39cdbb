"""Who may ask for what on the management listener (DESIGN 7), as one table."""

from types import MappingProxyType
from typing import Final

from cluster.bearer import Principal
from cluster.problem import Problem

OPERATOR: Final = "operator"
RECOVERY: Final = "recovery"
STDIN: Final = "stdin"
LOCAL: Final = Principal(name="local stdin", role=STDIN)
"""Whoever writes to a runner's standard input, on whichever voter's host: one scope for keys, so that a change may be
repeated at another one. No principal of a configuration can have this name."""

_EITHER: Final = frozenset({OPERATOR, RECOVERY})
_OPERATOR: Final = frozenset({OPERATOR})

ALLOWED: Final = MappingProxyType(
    {
        "health": _EITHER,
        "status": _EITHER,
        "metrics": _EITHER,
        "list": _EITHER,
        "show": _EITHER,
        "events": _EITHER,
        "next": _EITHER,
        "unknown": _EITHER,
        "apply": _OPERATOR,
        "enable": _OPERATOR,
        "disable": _OPERATOR,
        "delete": _OPERATOR,
        "trigger": _OPERATOR,
        "backfill": _OPERATOR,
        "cancel": _OPERATOR,
        "freeze": _OPERATOR,
        "unfreeze": _OPERATOR,
        "clock accept": _OPERATOR,
        "attest": frozenset({RECOVERY}),
        "voter replace": _OPERATOR,
    }
)
_NOT_BY_STDIN: Final = frozenset({"backup", "restore", "voter replace"})


def may_use(role: str, command: str) -> bool:
    """Return whether a role may use a command: by the table, and local stdin what an operator may, with exceptions.

    Attestation is no exception from that: no operator may, so that it takes a recovery credential everywhere.
    """
    if role == STDIN:
        return OPERATOR in ALLOWED[command] and command not in _NOT_BY_STDIN
    return role in ALLOWED[command]


def may_touch(principal: Principal, namespace: str) -> bool:
    """Return whether a namespace is within what the credential is for."""
    return principal.namespaces is None or namespace in principal.namespaces


def demand(principal: Principal, namespace: str) -> None:
    """Return if the principal may touch the namespace.

    Raises:
        Problem: 403.
    """
    if not may_touch(principal, namespace):
        raise Problem(
            403,
            "Forbidden",
            f"The credential of {principal.name!r} is not for namespace {namespace!r}; use one that is.",
            "not_done",
        )


def demand_all(principal: Principal, because: str, what: str) -> None:
    """Return if the principal's credential is for all namespaces.

    Args:
        because: why no less will do, the beginning of a sentence.
        what: what only such a credential may do.

    Raises:
        Problem: 403.
    """
    if principal.namespaces is not None:
        detail = f"{because}; only a credential for all namespaces may {what}."
        raise Problem(403, "Forbidden", detail, "not_done")
