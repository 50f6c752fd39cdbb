"""What each word of the console asks the management listener's handlers, from values that were said. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from cluster.problem import Problem
from runner.checkpoint.limits import MAX_ATTESTED
from runner.management.bodies import NAME_PATTERN

Values = Mapping[str, object]
STATEMENT: Final = ("attester", "statement", "evidence")
MAX_SAID_BACK: Final = 64


@dataclass(frozen=True, slots=True)
class Parts:
    """A request of the management listener, without who asks.

    Attributes:
        path: an endpoint's path, its parameters still in it.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def is_change(self) -> bool:
        """Tell whether it asks for a change, which needs a key."""
        return self.method == "POST"


def schedules(values: Values) -> Parts:
    """Ask for schedules."""
    return Parts("GET", "/v1/schedules", query=_texts(values, "after", "limit"))


def runs(values: Values) -> Parts:
    """Ask for runs and skipped ranges."""
    return Parts("GET", "/v1/runs", query=_texts(values, "schedule", "state", "before", "limit"))


def show(values: Values) -> Parts:
    """Ask for one run."""
    return Parts("GET", "/v1/runs/{id}", params={"id": str(values["run"])})


def events(values: Values) -> Parts:
    """Ask for the trail, of one run or of all."""
    return Parts("GET", "/v1/events", query=_texts(values, "before", "limit") | _renamed(values, run="run_id"))


def apply(values: Values) -> Parts:
    """Ask for schedules and pools to be as said."""
    return _post("/v1/apply", {name: values[name] for name in ("pools", "schedules", "calendars") if name in values})


def named_change(path: str, *also: str) -> Callable[[Values], Parts]:
    """Return what asks a path for a change of one schedule; it raises a Problem (400) for no name of one.

    Args:
        also: what else of the values the body takes, where it was said.
    """
    return lambda values: _post(path, {**_schedule(values), **{name: values[name] for name in also if name in values}})


def following(values: Values) -> Parts:
    """Ask for a schedule's next instants; raises a Problem (400) as a change of one does."""
    flags = {"explain": "true"} if values.get("explain") else {}
    return Parts("GET", "/v1/next", query=_schedule(values) | _texts(values, "n", "after") | flags)


def clock(values: Values) -> Parts:
    """Ask for the clocks to be believed; raises a Problem (400) if anything else is said of them."""
    if values["action"] != "accept":
        detail = f"{quoted(values['action'])} is nothing that can be done to the clock; say: clock accept."
        raise Problem(400, "Bad Request", detail, "not_done")
    return _post("/v1/clock/accept", {})


def nothing_said(path: str) -> Callable[[Values], Parts]:
    """Return what asks a path for a change that takes no values."""
    return lambda _: _post(path, {})


def cancel(values: Values) -> Parts:
    """Ask for a run to be cancelled."""
    return _post("/v1/cancel", {"run_id": values["run"]})


def attest(values: Values) -> Parts:
    """State what a human made sure of about one attempt."""
    said = {name: values[name] for name in ("attempt", "attester", "statement", "evidence", "row_revision")}
    return _post("/v1/attest", {"run_id": values["run"], **said})


def attest_incarnation(values: Values) -> Parts:
    """State it about all that one incarnation left."""
    names = ("worker", "incarnation", "attempts", *STATEMENT)
    return _post("/v1/attest/incarnation", {name: values[name] for name in names})


def unknown(values: Values) -> Parts:
    """Ask for every attempt that a human may attest."""
    return Parts("GET", "/v1/unknown", query=_texts(values, "worker", "incarnation", "after", "limit"))


def get(path: str) -> Callable[[Values], Parts]:
    """Return what reads a path that takes no values."""
    return lambda _: Parts("GET", path)


@dataclass(frozen=True, slots=True)
class ReadFirst:
    """What an attestation is about, read just before it where the line does not say it.

    Attributes:
        fills: the value that the answer gives.
        found: that value, from the answer and what was said; None or empty if there is none.
    """

    fills: str
    parts: Callable[[Values], Parts]
    found: Callable[[Any, Values], object]
    else_say: str


READ_FIRST: Final = MappingProxyType(
    {
        "attest": ReadFirst(
            "row_revision",
            show,
            lambda run, values: next((n["row_revision"] for n in run["attempts"] if n["n"] == values["attempt"]), None),
            "The run has no such attempt; `show` lists those it has.",
        ),
        "attest-incarnation": ReadFirst(
            "attempts",
            lambda values: unknown({**values, "limit": MAX_ATTESTED}),
            lambda rows, _: [{key: row[key] for key in ("run_id", "attempt", "row_revision")} for row in rows],
            "Nothing of this incarnation can be attested; `unknown` lists what can.",
        ),
    }
)


def quoted(value: object) -> str:
    """Return something that was said as it may be said back: short, in quotes, nothing that a terminal obeys."""
    text = str(value)
    return ascii(text if len(text) <= MAX_SAID_BACK else text[:MAX_SAID_BACK] + "…")


def _schedule(values: Values) -> dict[str, str]:
    namespace, _, name = str(values["schedule"]).partition("/")
    if not (_is_name(namespace) and _is_name(name)):
        detail = f"{quoted(values['schedule'])} is no schedule: NAMESPACE/NAME."
        raise Problem(400, "Bad Request", detail, "not_done")
    return {"namespace": namespace, "name": name}


def _post(path: str, body: object) -> Parts:
    return Parts("POST", path, body=msgspec.json.encode(body))


def _texts(values: Values, *names: str) -> dict[str, str]:
    return {name: str(values[name]) for name in names if name in values}


def _renamed(values: Values, **names: str) -> dict[str, str]:
    return {new: str(values[old]) for old, new in names.items() if old in values}


def _is_name(text: str) -> bool:
    return re.match(NAME_PATTERN, text) is not None
