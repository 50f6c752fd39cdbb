"""What one turn of the loop proposes: the callers' operations first, then the owner's own. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from msgspec import structs

from runner.agenda import MAX_WALKED, bars, bars_of_edit, catch_up, due, walked
from runner.aside import claim_of, subject_of
from runner.checkpoint.ops import Apply, CloseOp, Delete, ForgetOperations, Op, Restore, SetEnabled, SetFrozen
from runner.checkpoint.records import Schedule
from runner.claims import Match, match
from runner.deadlines import overdue
from runner.inbox import Entry
from runner.proposing import Slot
from runner.settings import Timing
from runner.silence import fell_together
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
        moves: leadership is to move to another voter.
        claimed: the namespaces whose turns the claims among the operations were, in order.
        put_back: entries that must wait: more of the past has to be put on record before them, or what is due of a
            schedule that they edit is not known yet.
        walked: instants that were walked over to put the past on record.
        switched: a freeze begins or ends, or a generation begins, in this command: what is due before a later edit
            is planned after it.
    """

    slots: list[Slot] = field(default_factory=list)
    put_back: list[Entry] = field(default_factory=list)
    walked: int = 0
    switched: bool = False
    moves: bool = False
    claimed: list[str] = field(default_factory=list)

    def claims(self, matches: Iterable[Match]) -> Iterator[Op]:
        """Yield claims, noting whose turn each was."""
        for each in matches:
            self.claimed.append(each.namespace)
            yield each.op


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a turn knows beside the checkpoint and the tenure.

    Attributes:
        now_ms: the command's now; the calendar is read at the same instant.
        stepped: the clocks are not believed: nothing is materialised or closed because of them. An edit still puts on
            record what is due before it, since it moves the watermark to the same `now_ms`.
        drained: no caller waits whose words this turn does not take in: a worker that is silent has really said nothing.
        could_move: another voter could own.
    """

    now_ms: int
    stepped: bool
    drained: bool
    could_move: bool


def edited_by(op: Op) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the schedules whose watermark or planning this operation may move or end."""
    match op:
        case Apply(schedules=specs):
            return frozenset((spec.namespace, spec.name) for spec in specs)
        case SetEnabled(namespace=namespace, name=name) | Delete(namespace=namespace, name=name):
            return frozenset({(namespace, name)})
        case _:
            return frozenset()


def draft(entries: Sequence[Entry], view: View, tenure: Tenure, now: Circumstances, timing: Timing) -> Draft:
    """Decide what this turn proposes.

    Args:
        entries: what was drained from the inbox, in order.
        view: the checkpoint at the tenure's revision.
        tenure: contacts, watches and aims of this owner, brought up to this view.
        now: the circumstances of the turn.
        timing: the owner's deadlines.
    """
    found = Draft()
    caught: set[str] = set()
    for entry in entries:
        if (found.put_back or found.switched) and edited_by(entry.op):
            found.put_back.append(entry)  # edits keep their order, and stay on their side of a freeze or restore
        elif _catch_up(found, entry, view, tenure, caught, now.now_ms):
            edited = (view.edited.get(name) for name in edited_by(entry.op))
            needs = caught.intersection(row.schedule_id for row in edited if row is not None)
            found.slots.append(Slot(entry.op, entry, frozenset(needs)))
            found.switched = found.switched or isinstance(entry.op, SetFrozen | Restore)
        else:
            found.put_back.append(entry)
    found.moves = now.could_move and fell_together(
        tenure.contacts, view.attempts, served_s=tenure.served.served_s, timing=timing
    )
    own = _own(found, view, tenure, caught, now, timing, lose_silent=now.drained and not found.moves)
    bearable = (op for op in own if not tenure.aside.holds(subject_of(op), tenure.served.served_s))
    found.slots += [Slot(op) for op in islice(bearable, MAX_OWN)]
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
        found.slots += [Slot(op) for op in due_first]
        found.walked += walked(row, due_first)
        caught.add(row.schedule_id)
        if not reached:
            return False
    return True


def _own(
    found: Draft, view: View, tenure: Tenure, caught: set[str], now: Circumstances, timing: Timing, *, lose_silent: bool
) -> Iterator[Op]:
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
        lose_silent=lose_silent,
    )
    if not now.stepped:
        yield from (CloseOp(run_id) for run_id in view.closing)
    if not now.stepped and not view.head.frozen and not tenure.winding_down:
        yield from due(_not_caught(view.schedules, caught), tenure.aims.known, now.now_ms, MAX_OWN, bars(view.head))
    if served_s >= tenure.forget_at_s:
        yield ForgetOperations(now.now_ms - round(timing.operation_kept_s * 1000), FORGET_LIMIT)
    if not tenure.winding_down:
        offered = (one for one in view.claimable if not tenure.aside.holds(claim_of(one), served_s))
        yield from found.claims(match(offered, view.room, view.pools, tenure.last_claims))
    if view.expired is not None:
        yield from view.expired.prunes


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
