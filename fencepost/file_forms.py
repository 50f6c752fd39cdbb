"""What a schedule file may hold, table by table; what it means is judged where it becomes a body."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from runner.calendar.dst import Fold, Gap
from runner.checkpoint.ops import Overlap
from runner.management.bodies import CatchUpPolicy

_MAX_COUNT: Final = 2**31 - 1


class RetryForm(Struct, forbid_unknown_fields=True):
    """Table `retry` of a schedule."""

    attempts: Annotated[int, Meta(ge=1, le=_MAX_COUNT)] = 1
    backoff: str = "1s"
    factor: int | float = 2
    max: str = "5m"
    on_exit_codes: Annotated[list[int], Meta(min_length=1, max_length=256)] | None = None


class CommandForm(Struct, forbid_unknown_fields=True):
    """Table `command` of a schedule."""

    argv: Annotated[list[str], Meta(min_length=1)]
    env: dict[str, str] = {}
    cwd: str | None = None
    timeout: str | None = None


class CatchUpForm(Struct, forbid_unknown_fields=True):
    """Table `catch_up` of a schedule."""

    window: str = "1h"
    policy: CatchUpPolicy = "latest"
    limit: int = 100


class TriggerForm(Struct, forbid_unknown_fields=True):
    """One table of `[[schedule.trigger]]`."""

    cron: str | None = None
    every: str | None = None
    at: str | list[str] | None = None


class ScheduleForm(Struct, forbid_unknown_fields=True):
    """One table of `[[schedule]]`."""

    namespace: str
    name: str
    command: CommandForm
    cron: str | None = None
    every: str | None = None
    at: str | list[str] | None = None
    trigger: list[TriggerForm] | None = None
    timezone: str = "UTC"
    start: str | None = None
    end: str | None = None
    max_runs: int | None = None
    dst_gap: Gap = "next"
    dst_fold: Fold = "first"
    exclude: list[str] = []
    catch_up: CatchUpForm = msgspec.field(default_factory=CatchUpForm)
    jitter: str | None = None
    overlap: Overlap = "skip"
    max_concurrent: int | None = None
    queue_limit: int | None = None
    pool: str = "default"
    on_unknown: Literal["hold"] = "hold"
    retry: RetryForm = msgspec.field(default_factory=RetryForm)
    retention: str = "30d"


class PoolForm(Struct, forbid_unknown_fields=True):
    """One table of `[[pool]]`."""

    name: str
    limit: Annotated[int, Meta(ge=0, le=_MAX_COUNT)]


class CalendarForm(Struct, forbid_unknown_fields=True):
    """One table of `[[calendar]]`: dates that stand in it, in another file, or both."""

    name: str
    dates: list[str] | None = None
    file: str | None = None


class FileForm(Struct, forbid_unknown_fields=True):
    """A schedule file."""

    schedule: list[ScheduleForm] = []
    pool: list[PoolForm] = []
    calendar: list[CalendarForm] = []


class DatesForm(Struct, forbid_unknown_fields=True):
    """A file of dates that a `[[calendar]]` names."""

    dates: list[str]
