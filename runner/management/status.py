"""The asked voter's own view of the cluster and its checkpoint."""

import sqlite3
from collections.abc import Mapping

from cluster.ports import Status
from runner.calendar import zones
from runner.checkpoint import queries
from runner.checkpoint.freezing import freeze_of
from runner.ids import instant_text
from runner.management.forms import FreezeForm, StatusForm, VoterForm, WorkerForm
from runner.management.ports import Owner


def status_form(db: sqlite3.Connection, *, status: Status, owner: Owner, timing: Mapping[str, float]) -> StatusForm:
    """Return what this voter knows; null for what only the owner does."""
    head, freeze = queries.head(db), freeze_of(db)
    workers = [WorkerForm(each.name, each.incarnation, round(each.last_contact_s, 3)) for each in owner.workers()]
    return StatusForm(
        cluster_id=head.cluster_id,
        generation=head.generation,
        node=status.name,
        role=status.role,
        owner=owner.owner(),
        epoch=head.epoch,
        revision=head.revision,
        term=status.term,
        applied_index=status.applied_index,
        voters=[
            VoterForm(each.name, each.connected, each.applied_index, each.disk_id or None, each.suffrage or None)
            for each in status.voters
        ],
        workers=workers if owner.drives else None,
        runs=queries.counts(db),
        tzdata=zones.version(),
        clock=owner.clock_state() if owner.drives else None,
        frozen=None if freeze is None else FreezeForm(instant_text(freeze.since_ms), freeze.by),
        timing=dict(timing),
        trouble=status.trouble,
    )
