"""What of a checkpoint row leads on: revisions, words and most instants do not, so rows that differ in them are one."""

from collections.abc import Callable

from runner.checkpoint.attempt_words import NOT_CONSUMED
from runner.checkpoint.said import RESTORED

NOW_MS = 600_000
PAST_MS, FAR_MS = 0, 1_000_000_000
CLOSING = {"closes_ms", "closing_ms", "deadline_ms"}
KEPT = {"scheduled_for_ms", "watermark_ms", "anchor_ms", "first_ms", "last_ms", "pruned_before_ms", "restored_ms"}
KEPT |= {"backoff_ms", "max_backoff_ms"}
TELLING = {
    NOT_CONSUMED,
    RESTORED,
    "missed_window",
    "superseded",
    "overlap",
    "queue_full",
    "unresolved",
    "exit",
    "refused",
}

Rule = tuple[int, Callable[[object], object]]


def _zero(value: object) -> object:
    return None if value is None else 0


def _instant(value: object) -> object:
    return value if value is None else FAR_MS if value > NOW_MS else PAST_MS


def _reason(value: object) -> object:
    return value if value is None or value in TELLING else "lost"


def rules_of(names: list[str]) -> list[Rule]:
    """Return what is to be done with the columns of a table, by place; a column of an unknown kind stays as it is."""
    found: list[Rule] = []
    for at, name in enumerate(names):
        if name in CLOSING:
            found.append((at, _instant))
        elif name.endswith("revision") and name not in {"definition_revision", "schedule_revision"}:
            found.append((at, lambda _: 0))
        elif name == "tail_skip_ms":
            found.append((at, lambda _: None))
        elif name in {"tail", "evidence"}:
            found.append((at, lambda _: ""))
        elif name == "reason":
            found.append((at, _reason))
        elif name in {"token", "token_counter"}:
            found.append((at, lambda value: value and 1 if value is not None else None))
        elif name == "now_ms" and "token_counter" in names:
            found.append((at, lambda _: NOW_MS))
        elif name.endswith("_ms") and name not in KEPT:
            found.append((at, _zero))
    return found


def kept(row: tuple[object, ...], rules: list[Rule]) -> tuple[object, ...]:
    """Return a row without what leads nowhere."""
    values = list(row)
    for at, rule in rules:
        values[at] = rule(values[at])
    return tuple(values)
