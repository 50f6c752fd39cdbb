"""From rows of the checkpoint's tables to records, and the columns that it takes."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import msgspec

from runner.checkpoint.ops import ScheduleSpec
from runner.checkpoint.records import Attempt, AttemptState, Run, RunState, Schedule

ATTEMPT_COLUMNS: Final = ", ".join(f"attempts.{field.name}" for field in fields(Attempt))
RUN_COLUMNS: Final = ", ".join(
    "schedules.slot_run_id IS runs.run_id" if field.name == "holds_slot" else f"runs.{field.name}"
    for field in fields(Run)
)
SCHEDULE_COLUMNS: Final = (
    "spec, schedule_id, enabled, definition_revision, watermark_ms, anchor_ms, slot_run_id, revision,"
    " digest, tail_skip_ms, pruned_before_ms, deleted_ms, planned_runs, defined_ms"
)

_spec_decoder = msgspec.json.Decoder(ScheduleSpec)


def schedule_of(row: Sequence[Any]) -> Schedule:
    """Return the record of a row of `SCHEDULE_COLUMNS`."""
    spec, schedule_id, enabled, *rest = row
    return Schedule(_spec_decoder.decode(spec), schedule_id, bool(enabled), *rest)


_FLAGS: Final = frozenset(
    {"unresolved", "superseded", "won", "fenced", "cancelled", "closed", "beside", "apart", "holds_slot"}
)
_ATTEMPT_FLAGS: Final = tuple(at for at, field in enumerate(fields(Attempt)) if field.name in _FLAGS)
_RUN_FLAGS: Final = tuple(at for at, field in enumerate(fields(Run)) if field.name in _FLAGS)
_ATTEMPT_STATE: Final = next(at for at, field in enumerate(fields(Attempt)) if field.name == "state")
_RUN_STATE: Final = next(at for at, field in enumerate(fields(Run)) if field.name == "state")


def attempt_of(row: Sequence[Any]) -> Attempt:
    """Return the record of a row of `ATTEMPT_COLUMNS`."""
    values = list(row)
    values[_ATTEMPT_STATE] = AttemptState(values[_ATTEMPT_STATE])
    for at in _ATTEMPT_FLAGS:
        values[at] = bool(values[at])
    return Attempt(*values)


def run_of(row: Sequence[Any]) -> Run:
    """Return the record of a row of `RUN_COLUMNS`."""
    values = list(row)
    values[_RUN_STATE] = RunState(values[_RUN_STATE])
    for at in _RUN_FLAGS:
        values[at] = bool(values[at])
    return Run(*values)
