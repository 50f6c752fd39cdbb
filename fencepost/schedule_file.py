"""A schedule file (TOML) as the body of `apply`, with errors that say file, line, schedule, key and what is right."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from fencepost.config import NAME, NAME_FORM
from fencepost.duration import MS_PER, BadDuration, milliseconds
from fencepost.faults import Mistake
from fencepost.nearest import quoted
from fencepost.toml_file import TomlFile
from fencepost.toml_lines import Keys
from runner.calendar import BadExpression, check_trigger, moment_ms
from runner.checkpoint.limits import MAX_POOLS, MAX_SCHEDULES
from runner.checkpoint.ops import At, Cron, Every, TriggerSpec
from runner.management.bodies import ApplyBody, PoolBody, RetryBody, ScheduleBody
from runner.management.policies import BadPolicy, retention_of, retry_of
from worker.protocol import CommandTarget

MAX_TARGET_BYTES: Final = 64 << 10  # DESIGN 4: payloads

T = TypeVar("T")

_MAX_COUNT: Final = 2**31 - 1
_PLAIN: Final = re.compile(r"[a-z0-9._/ -]{1,129}")


class _RetryForm(Struct, forbid_unknown_fields=True):
    attempts: Annotated[int, Meta(ge=1, le=_MAX_COUNT)] = 1
    backoff: str = "1s"
    factor: int | float = 2
    max: str = "5m"
    on_exit_codes: Annotated[list[int], Meta(min_length=1, max_length=256)] | None = None


class _CommandForm(Struct, forbid_unknown_fields=True):
    argv: Annotated[list[str], Meta(min_length=1)]
    env: dict[str, str] = {}
    cwd: str | None = None
    timeout: str | None = None


class _ScheduleForm(Struct, forbid_unknown_fields=True):
    namespace: str
    name: str
    command: _CommandForm
    cron: str | None = None
    every: str | None = None
    at: str | None = None
    timezone: str = "UTC"
    overlap: Literal["skip", "cancel_previous"] = "skip"
    pool: str = "default"
    on_unknown: Literal["hold"] = "hold"
    retry: _RetryForm = msgspec.field(default_factory=_RetryForm)
    retention: str = "30d"


class _PoolForm(Struct, forbid_unknown_fields=True):
    name: str
    limit: Annotated[int, Meta(ge=0, le=_MAX_COUNT)]


class _FileForm(Struct, forbid_unknown_fields=True):
    schedule: list[_ScheduleForm] = []
    pool: list[_PoolForm] = []


def load_schedules(path: Path) -> ApplyBody:
    """Read a schedule file whole; nothing of it is taken unless all of it is right.

    Raises:
        Mistake: one line: file, line, schedule, key, and what would be right.
    """
    file = TomlFile.read(path)
    form = file.convert(_FileForm, lambda keys: _called(file.table, keys))
    if not form.schedule and not form.pool:
        raise file.mistake((), "names nothing; write at least one [[schedule]] or [[pool]]")
    if len(form.pool) > MAX_POOLS:
        raise file.mistake(("pool", MAX_POOLS), f"more than {MAX_POOLS} pools in one file; split it")
    if len(form.schedule) > MAX_SCHEDULES:
        raise file.mistake(("schedule", MAX_SCHEDULES), f"more than {MAX_SCHEDULES} schedules in one file; split it")
    pools = tuple(_pool(file, i, each) for i, each in enumerate(form.pool))
    schedules = tuple(_Entry(file, i, each).body() for i, each in enumerate(form.schedule))
    _once(file, "pool", [each.name for each in pools])
    _once(file, "schedule", [f"{each.namespace}/{each.name}" for each in schedules])
    return ApplyBody(pools=pools, schedules=schedules)


def _called(table: dict[str, Any], keys: Keys) -> str:
    """Return what to call the schedule or pool that a path leads into, as far as the file names it."""
    match keys:
        case ("schedule" | "pool" as kind, int(index), *_):
            entry = table[kind][index]
            names = [entry.get("namespace"), entry.get("name")] if isinstance(entry, dict) else []
            shown = "/".join(name for name in names if isinstance(name, str)) or f"number {index + 1}"
            return f"{kind} {shown if _PLAIN.fullmatch(shown) else quoted(shown)}: "
        case _:
            return ""


def _once(file: TomlFile, kind: str, names: list[str]) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            raise file.mistake((kind, i, "name"), f"{kind} {name} stands in the file twice; remove or rename one")
        seen.add(name)


def _pool(file: TomlFile, index: int, form: _PoolForm) -> PoolBody:
    if NAME.fullmatch(form.name) is None:
        raise file.mistake(("pool", index, "name"), f"pool: {quoted(form.name)} is not a name: {NAME_FORM}")
    return PoolBody(name=form.name, limit=form.limit)


class _Entry:
    """One schedule of a file, on its way to the wire."""

    def __init__(self, file: TomlFile, index: int, form: _ScheduleForm) -> None:
        self._file = file
        self._at: Keys = ("schedule", index)
        self._form = form

    def body(self) -> ScheduleBody:
        form = self._form
        for key, name in (("namespace", form.namespace), ("name", form.name), ("pool", form.pool)):
            if NAME.fullmatch(name) is None:
                raise self._wrong((key,), f"{quoted(name)} is not a name: {NAME_FORM}")
        trigger = self._trigger()
        return ScheduleBody(
            namespace=form.namespace,
            name=form.name,
            cron=form.cron,
            every_s=trigger.interval_s if isinstance(trigger, Every) else None,
            at=form.at,
            timezone=form.timezone,
            overlap=form.overlap,
            pool=form.pool,
            on_unknown=form.on_unknown,
            retry=self._retry(),
            retention_s=self._retention_s(),
            command=self._command(),
        )

    def _retry(self) -> RetryBody:
        form = self._form.retry
        body = RetryBody(
            attempts=form.attempts,
            backoff_ms=self._milliseconds(("retry", "backoff"), form.backoff),
            factor=form.factor,
            max_ms=self._milliseconds(("retry", "max"), form.max),
            on_exit_codes=None if form.on_exit_codes is None else tuple(form.on_exit_codes),
        )
        self._checked(lambda: retry_of(body))
        return body

    def _retention_s(self) -> int:
        retention_s = self._seconds("retention", self._form.retention)
        return self._checked(lambda: retention_of(retention_s))

    def _checked(self, check: Callable[[], T]) -> T:
        """Return what a check of a policy returns; its keys have no unit in a file."""
        try:
            return check()
        except BadPolicy as fault:
            keys = tuple(key.removesuffix("_ms").removesuffix("_s") for key in fault.keys)
            raise self._wrong(keys, str(fault)) from fault

    def _trigger(self) -> TriggerSpec:
        """Return the trigger, checked in its time zone."""
        form = self._form
        try:
            trigger = self._stated()
            check_trigger(trigger, form.timezone)
        except BadExpression as fault:
            raise self._wrong((fault.key,), str(fault)) from fault
        return trigger

    def _stated(self) -> TriggerSpec:
        match (self._form.cron, self._form.every, self._form.at):
            case (str(expression), None, None):
                return Cron(expression)
            case (None, str(interval), None):
                return Every(self._seconds("every", interval))
            case (None, None, str(moment)):
                return At((moment_ms(moment, self._form.timezone),))
            case _:
                raise self._wrong((), 'write exactly one of cron = "…", every = "…" and at = "…"')

    def _command(self) -> CommandTarget:
        form = self._form.command
        for i, argument in enumerate(form.argv):
            if "\0" in argument or not form.argv[0]:
                raise self._wrong(("command", "argv", i), "an argument holds a NUL byte, or the program has no name")
        for name, value in form.env.items():
            if not name or "=" in name or "\0" in name + value or name.startswith("FENCEPOST_"):
                words = "is no variable to set: not empty, without '=' and NUL, and FENCEPOST_… are ours"
                raise self._wrong(("command", "env", name), f"{quoted(name)} {words}")
        if form.cwd is not None and (not form.cwd or "\0" in form.cwd):
            raise self._wrong(("command", "cwd"), "it is not a path")
        timeout_ms = None if form.timeout is None else self._milliseconds(("command", "timeout"), form.timeout)
        target = CommandTarget(argv=tuple(form.argv), env=form.env, cwd=form.cwd, timeout_ms=timeout_ms)
        if len(msgspec.msgpack.encode(target)) > MAX_TARGET_BYTES:
            raise self._wrong(
                ("command",), f"argv and env are longer than {MAX_TARGET_BYTES} bytes; put them in a file"
            )
        return target

    def _seconds(self, key: str, text: str) -> int:
        length_s, rest = divmod(self._milliseconds((key,), text), MS_PER["s"])
        if rest:
            raise self._wrong((key,), f"{key} is in whole seconds, at least 1s")
        return length_s

    def _milliseconds(self, keys: Keys, text: str) -> int:
        try:
            return milliseconds(text)
        except BadDuration as fault:
            raise self._wrong(keys, f"{quoted(text)}: {fault}") from fault

    def _wrong(self, keys: Keys, words: str) -> Mistake:
        key = ".".join(str(each) for each in keys if not isinstance(each, int))
        named = _called(self._file.table, self._at) + (f"{key}: " if key else "")
        return self._file.mistake((*self._at, *keys), named + words)
