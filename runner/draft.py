"""What one turn of the loop proposes: the callers' operations first, then the owner's own. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from runner.agenda import MAX_WALKED, bars, bars_of_edit, catch_up, due, walked
from runner.checkpoint.ops import Apply, CloseOp, Delete, ForgetOperations, Op, SetEnabled, SetFrozen
from runner.checkpoint.records import Schedule
from runner.claims import match, rooms
from runner.deadlines import overdue
from runner.inbox import Entry
from runner.settings import Timing
from runner.tenure import Tenure
from runner.view import View

MAX_DRAINED: Final = 1_000
MAX_OWN: Final = 500  # kept free of callers' operations, so that a flood of them never stops the calendar
MAX_CATCH_UP: Final = 1_000
FORGET_EVERY_S: Final = 3_600.0
FORGET_LIMIT: Final = 10_000


@dataclass(slots=True)
class Draft:
    """Operations in order, each with the entry of the caller that waits for its result, if there is one.

    Attributes:
        put_back: entries that must wait: more of the past has to be put on record before them, or what is due of a
            schedule that they edit is not known yet.
        walked: past instants that were walked to put them on record.
        switched: a freeze begins or ends in this command: what is due before a later edit is planned after it.
    """

    slots: list[tuple[Op, Entry | None]] = field(default_factory=list)
    put_back: list[Entry] = field(default_factory=list)
    walked: int = 0
    switched: bool = False

    @property
    def ops(self) -> tuple[Op, ...]:
        """Return the operations alone."""
        return tuple(op for op, _ in self.slots)


def edited_by(op: Op) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the schedules whose watermark or planning this operation may move or end."""
    match op:
        case Apply(schedules=specs):
            return frozenset((spec.namespace, spec.name) for spec in specs)
        case SetEnabled(namespace=namespace, name=name) | Delete(namespace=namespace, name=name):
            return frozenset({(namespace, name)})
        case _:
            return frozenset()


def draft(entries: Sequence[Entry], view: View, tenure: Tenure, *, now_ms: int, stepped: bool, timing: Timing) -> Draft:
    """Decide what this turn proposes.

    Args:
        entries: what was drained from the inbox, in order.
        view: the checkpoint at the tenure's revision.
        tenure: contacts, watches and aims of this owner, brought up to this view.
        now_ms: the command's now; the calendar is read at the same instant.
        stepped: the clocks are not believed: nothing is materialised or closed because of them. An edit still puts on
            record what is due before it, since it moves the watermark to the same `now_ms`.
    """
    found = Draft()
    caught: set[str] = set()
    for entry in entries:
        if (found.put_back or found.switched) and edited_by(entry.op):
            found.put_back.append(entry)  # edits keep their order, and stay on their side of a freeze
        elif _catch_up(found, entry, view, tenure, caught, now_ms):
            found.slots.append((entry.op, entry))
            found.switched = found.switched or isinstance(entry.op, SetFrozen)
        else:
            found.put_back.append(entry)
    own = _own(view, tenure, caught, now_ms=now_ms, stepped=stepped, timing=timing)
    found.slots += [(op, None) for op, _ in zip(own, range(MAX_OWN), strict=False)]
    return found


def _catch_up(found: Draft, entry: Entry, view: View, tenure: Tenure, caught: set[str], now_ms: int) -> bool:
    """Put what is due of the schedules that an operation edits before it; False if that takes another command."""
    for name in sorted(edited_by(entry.op)):
        row = view.edited.get(name)
        if row is None or row.schedule_id in caught or (view.head.frozen and _leaves_alone(entry.op, row)):
            continue
        if row.enabled and not tenure.aims.knows(row):
            return False
        next_ms = tenure.aims.known[row.schedule_id].next_ms if row.enabled else None
        if next_ms is None or next_ms > now_ms:
            continue
        if len(found.slots) >= MAX_DRAINED + MAX_CATCH_UP or found.walked >= MAX_WALKED:
            return False
        due_first, reached = catch_up(row, now_ms, bars_of_edit(view.head, now_ms))
        found.slots += [(op, None) for op in due_first]
        found.walked += walked(row, due_first)
        caught.add(row.schedule_id)
        if not reached:
            return False
    return True


def _own(view: View, tenure: Tenure, caught: set[str], *, now_ms: int, stepped: bool, timing: Timing) -> Iterator[Op]:
    """Yield the owner's own operations: deadlines, then the calendar, then claims."""
    contacts, served_s = tenure.contacts, tenure.served.served_s
    yield from overdue(
        view.attempts,
        tenure.watches,
        contacts.asks,
        contacts.get,
        epoch=tenure.epoch,
        served_s=served_s,
        timing=timing,
    )
    if not stepped:
        yield from (CloseOp(run_id) for run_id in view.closing)
    if not stepped and not view.head.frozen:
        yield from due(_not_caught(view.schedules, caught), tenure.aims.known, now_ms, MAX_OWN, bars(view.head))
    if served_s >= tenure.forget_at_s:
        yield ForgetOperations(now_ms - round(timing.operation_kept_s * 1000), FORGET_LIMIT)
    if view.head.frozen:
        return
    room = rooms(contacts, view.attempts, view.retired, served_s=served_s, poll_s=timing.poll_s)
    yield from match(view.claimable, room, view.pools)


def _leaves_alone(op: Op, row: Schedule) -> bool:
    """Return whether an edit changes nothing of a schedule, so that what is due of it may wait for the unfreeze."""
    match op:
        case Apply(schedules=specs):
            name = (row.spec.namespace, row.spec.name)
            named = [spec for spec in specs if (spec.namespace, spec.name) == name]
            return all(structs.replace(spec, schedule_id=row.schedule_id) == row.spec for spec in named)
        case SetEnabled(enabled=enabled):
            return enabled is row.enabled
        case _:
            return False


def _not_caught(schedules: Sequence[Schedule], caught: set[str]) -> list[Schedule]:
    return [row for row in schedules if row.schedule_id not in caught]
