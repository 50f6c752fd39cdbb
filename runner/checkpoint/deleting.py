"""What an operator's delete leaves of a schedule: a tombstone that plans nothing and keeps its name's id."""

from typing import Final

import msgspec

from runner.checkpoint import payload, queries
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Delete
from runner.checkpoint.results import OpResult
from worker.protocol import CommandTarget

NO_SUCH_SCHEDULE: Final = "no_such_schedule"
NO_TARGET: Final = CommandTarget(argv=("",))
"""In the place of a deleted schedule's own, which may be long or hold what nobody should keep; no file can say it."""
NO_DIGEST: Final = ""

_BURY: Final = (
    "UPDATE schedules SET spec = ?, digest = ?, enabled = 0, deleted_ms = ?, tail_skip_ms = NULL,"
    " definition_revision = ?, revision = ? WHERE schedule_id = ?"
)

_encoder = msgspec.json.Encoder(order="deterministic")


def delete(commit: Commit, op: Delete) -> OpResult:
    """End the planning of a schedule for good; says how many open runs go on, with the targets that they froze.

    The row stays: an apply of the same name revives the same id behind the same watermark, so that no instant is ever
    planned twice. Deleting what is deleted changes nothing.
    """
    schedule = queries.schedule_named(commit.db, op.namespace, op.name)
    if schedule is None:
        return OpResult("refused", NO_SUCH_SCHEDULE)
    schedule_id, gone = schedule.schedule_id, schedule.deleted_ms is not None
    if not gone:
        spec = _encoder.encode(msgspec.structs.replace(schedule.spec, target=NO_TARGET))
        written = (spec, NO_DIGEST, commit.now_ms, commit.revision, commit.revision, schedule_id)
        commit.db.execute(_BURY, written)
        payload.forget_unused(commit.db, schedule.digest)
        commit.note(f"schedule:{schedule_id}")
        commit.event(Cause(op.operation.principal, "delete", f"{op.namespace}/{op.name}"), to_state="deleted")
    open_runs = queries.open_runs(commit.db, schedule_id)
    return OpResult("done", detail={"schedule_id": schedule_id, "open_runs": open_runs, "unchanged": gone})
