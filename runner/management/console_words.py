"""The words of the console, one table: what each takes, and whose right it needs. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from runner.management import line_requests as requests
from runner.management.line_requests import STATEMENT, Parts, Values

NUMBERS: Final = frozenset({"attempt", "limit", "n", "row_revision"})
LISTS: Final = frozenset({"attempts", "calendars", "pools", "schedules"})
FLAGS: Final = frozenset({"catch_up", "dry_run", "explain"})
"""In plain words they are said without a value, in JSON they are true or false."""
FOR_ALL: Final = ("credential",)
FOR_CHANGES: Final = ("key",)


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
        options = [_with_value(name) for name in self.needs_named]
        others = [f"[{_with_value(name)}]" for name in self.named if name not in self.needs_named and name not in LISTS]
        return " ".join([self.name, *needed, *maybe, *options, *others])


WORDS: Final = MappingProxyType(
    {
        word.name: word
        for word in (
            Word(name="help", what="these words", command=None),
            Word(
                name="status",
                what="what this voter knows of the cluster",
                command="status",
                parts=requests.get("/v1/status"),
            ),
            Word(
                name="schedules",
                what="schedules by name",
                command="list",
                may_name=("after", "limit"),
                parts=requests.schedules,
            ),
            Word(
                name="runs",
                what="runs and skipped occurrences, newest first (also: list)",
                command="list",
                may_name=("schedule", "state", "before", "limit"),
                parts=requests.runs,
            ),
            Word(
                name="show",
                what="one run: what is known of it, what is not, its events",
                command="show",
                needs=("run",),
                parts=requests.show,
            ),
            Word(
                name="unknown",
                what="every attempt whose end nobody can confirm",
                command="unknown",
                may_name=("worker", "incarnation", "after", "limit"),
                parts=requests.unknown,
            ),
            Word(
                name="events",
                what="the trail of transitions, newest first",
                command="events",
                may_take=("run",),
                may_name=("before", "limit"),
                parts=requests.events,
            ),
            Word(
                name="next",
                what="a schedule's next instants, and why",
                command="next",
                needs=("schedule",),
                may_name=("n", "after", "explain"),
                parts=requests.following,
            ),
            Word(
                name="cancel",
                what="cancel a run; it is Cancelled only once the stop is confirmed",
                command="cancel",
                needs=("run",),
                is_change=True,
                parts=requests.cancel,
            ),
            Word(
                name="trigger",
                what="run a schedule once now",
                command="trigger",
                needs=("schedule",),
                may_name=("overlap",),
                is_change=True,
                parts=requests.named_change("/v1/trigger", "overlap"),
            ),
            Word(
                name="enable",
                what="plan a schedule from now on",
                command="enable",
                needs=("schedule",),
                may_name=("catch_up",),
                is_change=True,
                parts=requests.named_change("/v1/enable", "catch_up"),
            ),
            Word(
                name="disable",
                what="plan no more of a schedule; open runs go on",
                command="disable",
                needs=("schedule",),
                is_change=True,
                parts=requests.named_change("/v1/disable"),
            ),
            Word(
                name="delete",
                what="end a schedule's planning; open runs go on",
                command="delete",
                needs=("schedule",),
                is_change=True,
                parts=requests.named_change("/v1/delete"),
            ),
            Word(
                name="backfill",
                what="make runs of a schedule's past instants that nothing is on record of",
                command="backfill",
                needs=("schedule",),
                needs_named=("from", "to"),
                may_name=("dry_run",),
                is_change=True,
                parts=requests.named_change("/v1/backfill", "from", "to", "dry_run"),
            ),
            Word(
                name="freeze",
                what="first thing in an incident: start nothing more, in all namespaces",
                command="freeze",
                is_change=True,
                parts=requests.nothing_said("/v1/freeze"),
            ),
            Word(
                name="unfreeze",
                what="go on after a freeze",
                command="unfreeze",
                is_change=True,
                parts=requests.nothing_said("/v1/unfreeze"),
            ),
            Word(
                name="clock",
                what="`clock accept`: believe the clocks after a step that was meant",
                command="clock accept",
                needs=("action",),
                is_change=True,
                parts=requests.clock,
            ),
            Word(
                name="apply",
                what='create or change schedules and pools; only as JSON, such as {"command": "apply", "schedules": [...]}',
                command="apply",
                may_name=("pools", "schedules", "calendars"),
                is_change=True,
                parts=requests.apply,
            ),
            Word(
                name="attest",
                what="state, as a named human, that nothing of an attempt is alive; needs a recovery credential",
                command="attest",
                needs=("run", "attempt"),
                needs_named=STATEMENT,
                may_name=("row_revision",),
                is_change=True,
                parts=requests.attest,
            ),
            Word(
                name="attest-incarnation",
                what="the same of all that one lost process life of a worker left, all or nothing",
                command="attest",
                needs=("worker", "incarnation"),
                needs_named=STATEMENT,
                may_name=("attempts",),
                is_change=True,
                parts=requests.attest_incarnation,
            ),
        )
    }
)
ALSO: Final = MappingProxyType({"list": "runs", "?": "help"})


def help_lines() -> list[str]:
    """Return every word's usage and what it does, one line each."""
    return [f"{word.usage()}: {word.what}" for word in WORDS.values()]


def _shown(name: str) -> str:
    return "NS/NAME" if name == "schedule" else "N" if name == "attempt" else name.upper()


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _with_value(name: str) -> str:
    return _option(name) if name in FLAGS else f"{_option(name)} {_placeholder(name)}"


def _placeholder(name: str) -> str:
    return _PLACEHOLDERS.get(name, "TEXT")


_PLACEHOLDERS: Final = MappingProxyType(
    {
        "attester": "NAME",
        "credential": "FILE",
        "from": "INSTANT",
        "key": "K",
        "limit": "N",
        "n": "N",
        "overlap": "allow",
        "row_revision": "R",
        "to": "INSTANT",
    }
)
