"""The words of the console, one table: what each takes, and the request that it becomes. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec

from cluster.problem import Problem
from runner.management.bodies import NAME_PATTERN

Values = Mapping[str, object]

NUMBERS: Final = frozenset({"attempt", "limit", "row_revision"})
LISTS: Final = frozenset({"pools", "schedules"})
FOR_ALL: Final = ("credential",)
FOR_CHANGES: Final = ("key",)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One command.

    Attributes:
        command: key of `authorization.ALLOWED`; None for what anybody may.
        needs: what must be said, in the order of the plain words.
        may_take: what may follow these, in order, or be left out.
        needs_named: what must be said, with its name in front.
        may_name: what may be said with its name in front.
        parts: the request, from values that were checked against these lists.
    """

    name: str
    what: str
    command: str | None
    needs: tuple[str, ...] = ()
    may_take: tuple[str, ...] = ()
    needs_named: tuple[str, ...] = ()
    may_name: tuple[str, ...] = ()
    is_change: bool = False
    parts: Callable[[Values], Parts] = lambda _: Parts("GET", "")

    @property
    def in_order(self) -> tuple[str, ...]:
        """Return what plain words say without a name."""
        return self.needs + self.may_take

    @property
    def named(self) -> tuple[str, ...]:
        """Return what plain words say as `--name VALUE`."""
        shared = FOR_ALL + FOR_CHANGES if self.is_change else FOR_ALL
        return self.needs_named + self.may_name + (shared if self.command is not None else ())

    def usage(self) -> str:
        """Return how it is said in plain words."""
        needed = [_shown(name) for name in self.needs]
        maybe = [f"[{_shown(name)}]" for name in self.may_take]
        options = [f"{_option(name)} {_placeholder(name)}" for name in self.needs_named]
        others = [f"[{_option(name)} {_placeholder(name)}]" for name in self.named if name not in self.needs_named]
        return " ".join([self.name, *needed, *maybe, *options, *others])


def _runs(values: Values) -> Parts:
    return Parts("GET", "/v1/runs", query=_texts(values, "schedule", "state", "limit"))


def _show(values: Values) -> Parts:
    return Parts("GET", "/v1/runs/{id}", params={"id": str(values["run"])})


def _events(values: Values) -> Parts:
    return Parts("GET", "/v1/events", query=_texts(values, "limit") | _renamed(values, run="run_id"))


def _apply(values: Values) -> Parts:
    return _post("/v1/apply", {name: values[name] for name in ("pools", "schedules") if name in values})


def _named_change(path: str) -> Callable[[Values], Parts]:
    def parts(values: Values) -> Parts:
        namespace, _, name = str(values["schedule"]).partition("/")
        if not (_is_name(namespace) and _is_name(name)):
            raise Problem(
                400, "Bad Request", f"{quoted(values['schedule'])} is no schedule: NAMESPACE/NAME.", "not_done"
            )
        return _post(path, {"namespace": namespace, "name": name})

    return parts


def _cancel(values: Values) -> Parts:
    return _post("/v1/cancel", {"run_id": values["run"]})


def _attest(values: Values) -> Parts:
    said = {name: values[name] for name in ("attempt", "attester", "statement", "evidence", "row_revision")}
    return _post("/v1/attest", {"run_id": values["run"], **said})


def _get(path: str) -> Callable[[Values], Parts]:
    return lambda _: Parts("GET", path)


STATEMENT: Final = ("attester", "statement", "evidence")
WORDS: Final = MappingProxyType(
    {
        word.name: word
        for word in (
            Word(name="help", what="these words", command=None),
            Word(
                name="status",
                what="what this voter knows of the cluster",
                command="status",
                parts=_get("/v1/status"),
            ),
            Word(name="schedules", what="all schedules", command="list", parts=_get("/v1/schedules")),
            Word(
                name="runs",
                what="runs and skipped occurrences, newest first (also: list)",
                command="list",
                may_name=("schedule", "state", "limit"),
                parts=_runs,
            ),
            Word(
                name="show",
                what="one run: what is known of it, what is not, its events",
                command="show",
                needs=("run",),
                parts=_show,
            ),
            Word(
                name="events",
                what="the trail of transitions, newest first",
                command="events",
                may_take=("run",),
                may_name=("limit",),
                parts=_events,
            ),
            Word(
                name="cancel",
                what="cancel a run; it is Cancelled only once the stop is confirmed",
                command="cancel",
                needs=("run",),
                is_change=True,
                parts=_cancel,
            ),
            Word(
                name="trigger",
                what="run a schedule once now",
                command="trigger",
                needs=("schedule",),
                is_change=True,
                parts=_named_change("/v1/trigger"),
            ),
            Word(
                name="enable",
                what="plan a schedule from now on",
                command="enable",
                needs=("schedule",),
                is_change=True,
                parts=_named_change("/v1/enable"),
            ),
            Word(
                name="disable",
                what="plan no more of a schedule; open runs go on",
                command="disable",
                needs=("schedule",),
                is_change=True,
                parts=_named_change("/v1/disable"),
            ),
            Word(
                name="apply",
                what='create or change schedules and pools; only as JSON, such as {"command": "apply", "schedules": [...]}',
                command="apply",
                may_name=("pools", "schedules"),
                is_change=True,
                parts=_apply,
            ),
            Word(
                name="attest",
                what="state, as a named human, that nothing of an attempt is alive; needs a recovery credential",
                command="attest",
                needs=("run", "attempt"),
                needs_named=STATEMENT,
                may_name=("row_revision",),
                is_change=True,
                parts=_attest,
            ),
        )
    }
)
ALSO: Final = MappingProxyType({"list": "runs", "?": "help"})


def help_lines() -> list[str]:
    """Return every word's usage and what it does, one line each."""
    return [f"{word.usage()}: {word.what}" for word in WORDS.values()]


def quoted(value: object) -> str:
    """Return something that was said as it may be said back: short, in quotes, nothing that a terminal obeys."""
    text = str(value)
    return ascii(text if len(text) <= MAX_SAID_BACK else text[:MAX_SAID_BACK] + "…")


MAX_SAID_BACK: Final = 64


def _post(path: str, body: object) -> Parts:
    return Parts("POST", path, body=msgspec.json.encode(body))


def _texts(values: Values, *names: str) -> dict[str, str]:
    return {name: str(values[name]) for name in names if name in values}


def _renamed(values: Values, **names: str) -> dict[str, str]:
    return {new: str(values[old]) for old, new in names.items() if old in values}


def _is_name(text: str) -> bool:
    return re.match(NAME_PATTERN, text) is not None


def _shown(name: str) -> str:
    return "NS/NAME" if name == "schedule" else "N" if name == "attempt" else name.upper()


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _placeholder(name: str) -> str:
    return {"attester": "NAME", "credential": "FILE", "limit": "N", "row_revision": "R", "key": "K"}.get(name, "TEXT")
