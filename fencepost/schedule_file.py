"""A schedule file (TOML) as the body of `apply`, with errors that say file, line, schedule, key and what is right."""

import re
from pathlib import Path
from typing import Any, Final

from fencepost.calendar_files import load_calendars
from fencepost.config import NAME, NAME_FORM
from fencepost.duration import MS_PER, BadDuration, milliseconds
from fencepost.faults import Mistake
from fencepost.file_forms import FileForm, PoolForm, ScheduleForm, TriggerForm
from fencepost.nearest import quoted
from fencepost.toml_file import TomlFile
from fencepost.toml_lines import Keys
from runner.checkpoint.limits import MAX_POOLS, MAX_SCHEDULES
from runner.management.bodies import ApplyBody, CatchUpBody, PoolBody, RetryBody, ScheduleBody, TriggerBody
from runner.management.defining import spec_of
from runner.management.policies import BadPolicy
from runner.management.triggering import Calendars
from worker.protocol import CommandTarget

_PLAIN: Final = re.compile(r"[a-z0-9._/ -]{1,129}")
# A body's lengths of time are numbers and say their unit; a file's are texts and do not.
_IN_A_FILE: Final = {
    "backoff_ms": "backoff",
    "every_s": "every",
    "jitter_ms": "jitter",
    "max_ms": "max",
    "retention_s": "retention",
    "timeout_ms": "timeout",
    "triggers": "trigger",
    "window_s": "window",
}


def load_schedules(path: Path) -> ApplyBody:
    """Read a schedule file whole; nothing of it is taken unless all of it is right.

    Raises:
        Mistake: one line: file, line, schedule, key, and what would be right.
    """
    file = TomlFile.read(path)
    form = file.convert(FileForm, lambda keys: _called(file.table, keys))
    if not form.schedule and not form.pool:
        raise file.mistake((), "names nothing; write at least one [[schedule]] or [[pool]]")
    if len(form.pool) > MAX_POOLS:
        raise file.mistake(("pool", MAX_POOLS), f"more than {MAX_POOLS} pools in one file; split it")
    if len(form.schedule) > MAX_SCHEDULES:
        raise file.mistake(("schedule", MAX_SCHEDULES), f"more than {MAX_SCHEDULES} schedules in one file; split it")
    pools = tuple(_pool(file, i, each) for i, each in enumerate(form.pool))
    calendars, ready = load_calendars(file, form.calendar)
    schedules = tuple(_Entry(file, i, each).checked(ready) for i, each in enumerate(form.schedule))
    _once(file, "pool", [each.name for each in pools])
    _once(file, "schedule", [f"{each.namespace}/{each.name}" for each in schedules])
    return ApplyBody(pools=pools, schedules=schedules, calendars=calendars)


def _called(table: dict[str, Any], keys: Keys) -> str:
    """Return what to call the schedule or pool that a path leads into, as far as the file names it."""
    match keys:
        case ("schedule" | "pool" | "calendar" as kind, int(index), *_):
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


def _pool(file: TomlFile, index: int, form: PoolForm) -> PoolBody:
    if NAME.fullmatch(form.name) is None:
        raise file.mistake(("pool", index, "name"), f"pool: {quoted(form.name)} is not a name: {NAME_FORM}")
    return PoolBody(name=form.name, limit=form.limit)


class _Entry:
    """One schedule of a file, on its way to the wire."""

    def __init__(self, file: TomlFile, index: int, form: ScheduleForm) -> None:
        self._file = file
        self._at: Keys = ("schedule", index)
        self._form = form

    def checked(self, calendars: Calendars) -> ScheduleBody:
        """Return the body, which the voter will find nothing wrong with."""
        body = self._body()
        try:
            spec_of(body, calendars, "")
        except BadPolicy as fault:
            raise self._wrong(_in_a_file(fault.keys), str(fault)) from fault
        return body

    def _body(self) -> ScheduleBody:
        form = self._form
        for key, name in (("namespace", form.namespace), ("name", form.name), ("pool", form.pool)):
            if NAME.fullmatch(name) is None:
                raise self._wrong((key,), f"{quoted(name)} is not a name: {NAME_FORM}")
        if sum(each is not None for each in (form.cron, form.every, form.at, form.trigger)) != 1:
            right = 'cron = "…", every = "…" and at = "…", or several [[schedule.trigger]]'
            raise self._wrong((), f"write exactly one of {right}")
        return ScheduleBody(
            namespace=form.namespace,
            name=form.name,
            cron=form.cron,
            every_s=None if form.every is None else self._seconds(("every",), form.every),
            at=_stated(form.at),
            triggers=self._triggers(),
            timezone=form.timezone,
            start=form.start,
            end=form.end,
            max_runs=form.max_runs,
            dst_gap=form.dst_gap,
            dst_fold=form.dst_fold,
            exclude=tuple(form.exclude),
            catch_up=self._catch_up(),
            jitter_ms=0 if form.jitter is None else self._milliseconds(("jitter",), form.jitter),
            overlap=form.overlap,
            max_concurrent=form.max_concurrent,
            queue_limit=form.queue_limit,
            pool=form.pool,
            on_unknown=form.on_unknown,
            retry=self._retry(),
            retention_s=self._seconds(("retention",), form.retention),
            command=self._command(),
        )

    def _triggers(self) -> tuple[TriggerBody, ...] | None:
        if self._form.trigger is None:
            return None
        return tuple(self._trigger(("trigger", i), each) for i, each in enumerate(self._form.trigger))

    def _trigger(self, keys: Keys, form: TriggerForm) -> TriggerBody:
        every_s = None if form.every is None else self._seconds((*keys, "every"), form.every)
        return TriggerBody(form.cron, every_s, _stated(form.at))

    def _catch_up(self) -> CatchUpBody:
        form = self._form.catch_up
        return CatchUpBody(self._seconds(("catch_up", "window"), form.window), form.policy, form.limit)

    def _retry(self) -> RetryBody:
        form = self._form.retry
        return RetryBody(
            attempts=form.attempts,
            backoff_ms=self._milliseconds(("retry", "backoff"), form.backoff),
            factor=form.factor,
            max_ms=self._milliseconds(("retry", "max"), form.max),
            on_exit_codes=None if form.on_exit_codes is None else tuple(form.on_exit_codes),
        )

    def _command(self) -> CommandTarget:
        form = self._form.command
        timeout_ms = None if form.timeout is None else self._milliseconds(("command", "timeout"), form.timeout)
        return CommandTarget(argv=tuple(form.argv), env=form.env, cwd=form.cwd, timeout_ms=timeout_ms)

    def _seconds(self, keys: Keys, text: str) -> int:
        length_s, rest = divmod(self._milliseconds(keys, text), MS_PER["s"])
        if rest:
            raise self._wrong(keys, f"{keys[-1]} is in whole seconds, at least 1s")
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


def _stated(at: str | list[str] | None) -> str | tuple[str, ...] | None:
    return tuple(at) if isinstance(at, list) else at


def _in_a_file(keys: Keys) -> Keys:
    """Return the path of a body's key in a file; names of variables stay as they are."""
    if keys[:2] == ("command", "env"):
        return keys
    return tuple(_IN_A_FILE.get(key, key) if isinstance(key, str) else key for key in keys)
