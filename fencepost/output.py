"""Answers as tables and lines for people; pure text, and nothing in it that a terminal would obey."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def as_json(answer: object) -> str:
    """Return an answer as a program reads it, in ASCII, whatever the terminal."""
    return json.dumps(answer, indent=2)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows under headings, each column as wide as its widest cell."""
    cells = [list(headings), *([cell(each) for each in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def cell(value: object) -> str:
    """Return a value as one printable line; `-` for nothing."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case _:
            return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(value))


def runs(rows: Sequence[Row]) -> str:
    """Return runs and skipped ranges, newest first as they came."""
    return table(
        ["SCHEDULE", "SCHEDULED FOR", "STATE", "REASON", "ATTEMPTS", "WORKER", "RUN"],
        [
            (
                f"{row['namespace']}/{row['schedule']}",
                _planned(row),
                row["state"],
                row["reason"],
                len(row["attempts"]),
                row["attempts"][-1]["worker"] if row["attempts"] else None,
                row["run_id"],
            )
            for row in rows
        ],
    )


def schedules(rows: Sequence[Row]) -> str:
    """Return schedules with their triggers."""
    return table(
        ["SCHEDULE", "TRIGGER", "TIMEZONE", "ENABLED", "POOL", "NEXT"],
        [
            (
                f"{row['namespace']}/{row['name']}",
                row["cron"] or f"every {row['every_s']}s",
                row["timezone"],
                row["enabled"],
                row["pool"],
                row["next"] and row["next"]["at"],
            )
            for row in rows
        ],
    )


def events(rows: Sequence[Row]) -> str:
    """Return the trail, newest first as it came."""
    return table(
        ["REVISION", "AT", "ACTOR", "RUN", "ATTEMPT", "OP", "FROM", "TO", "WHY"],
        [
            [row.get(key) for key in ("revision", "at", "actor", "run_id", "attempt", "op", "from", "to", "why")]
            for row in rows
        ],
    )


def instants(rows: Sequence[Row]) -> str:
    """Return what `next` found."""
    return table(["AT", "LOCAL", "RULE"], [(row["at"], row["local"], row["rule"]) for row in rows])


def explained(rows: Sequence[Row]) -> str:
    """Return what `next --explain` found."""
    return table(
        ["AT", "LOCAL", "RUNS", "RULE", "BECAUSE"],
        [(row["at"], row["local"], row["skipped"] is None, row["rule"], row["because"]) for row in rows],
    )


_COUNTS = {"voter": "yes", "catching_up": "catches up", "not_accepted": "not accepted", "retired": "replaced"}


def status(answer: Row) -> str:
    """Return one voter's view of the cluster."""
    keys = ("cluster_id", "generation", "node", "role", "owner", "epoch", "revision", "term", "applied_index", "clock")
    head = table(["KEY", "VALUE"], [(key, answer.get(key)) for key in keys if key in answer])
    if answer.get("trouble"):
        head = f"{head}\n\nNot ready: {cell(answer['trouble'])}"
    voters = table(
        ["VOTER", "CONNECTED", "APPLIED INDEX", "DISK", "COUNTS"],
        [
            (
                each["name"],
                each["connected"],
                each["applied_index"],
                each.get("disk_id"),
                _COUNTS.get(each.get("suffrage"), each.get("suffrage")),
            )
            for each in answer["voters"]
        ],
    )
    workers = table(
        ["WORKER", "INCARNATION", "LAST CONTACT"],
        [
            (each["name"], each["incarnation"], f"{each['last_contact_s']:.1f} s ago")
            for each in answer["workers"] or ()
        ],
    )
    counts = table(["RUNS", "COUNT"], sorted(answer["runs"].items()))
    return f"{head}\n\n{voters}\n\n{workers}\n\n{counts}"


def run(answer: Row) -> str:
    """Return one run: what is known of it, what is not and why, its attempts and its events."""
    keys = ("namespace", "schedule", "scheduled_for", "triggered_at", "run_id", "state", "reason")
    attempts = answer["attempts"]
    because = "Unknown because" if answer["state"] == "Unknown" else "Not known because"
    return "\n\n".join(
        [
            table(["KEY", "VALUE"], [(key, answer[key]) for key in keys if key in answer]),
            *([f"Waits for: {cell(answer['waits_for'])}"] if answer.get("waits_for") else []),
            *([f"{because}: {cell(answer['unknown_because'])}"] if answer["unknown_because"] else []),
            table(
                ["N", "STATE", "WORKER", "INCARNATION", "EPOCH", "PERMIT", "STARTED", "ENDED", "EXIT", "REASON"],
                [[_shown(each, key) for key in _ATTEMPT] for each in attempts],
            ),
            *(_lines(f"said of attempt {each['n']}", each["evidence"]) for each in attempts if each["evidence"]),
            *(_lines(f"end of the output of attempt {each['n']}", each["tail"]) for each in attempts if each["tail"]),
            events(answer["events"]),
        ]
    )


def preview(answer: Row) -> str:
    """Return what an apply would do."""
    lines = [
        f"would {verb} {cell(name)}"
        for verb, key in (("create", "creates"), ("change", "changes"))
        for name in answer[key]
    ]
    fresh = answer.get("new_pools", ())
    lines += [f"would {'create' if name in fresh else 'change'} pool {cell(name)}" for name in answer["pools"]]
    lines += [f"unchanged {cell(name)}" for name in answer["unchanged"]]
    return "\n".join(lines)


def outcome(answer: object) -> str:
    """Return what a change that was done was answered with, one line for each thing it says."""
    told = answer if isinstance(answer, Mapping) else {}
    done = "on record, not launched" if is_skipped(told) else "done"
    lines = [f"{done} before, under this key" if told.get("again") else done]
    for key, value in told.items():
        each = value if isinstance(value, list) else [value]
        lines += [f"{cell(key)}: {_named(one)}" for one in each if key != "again"]
    return "\n".join(lines)


def is_skipped(answer: object) -> bool:
    """Return whether a trigger was answered with a run that policy decided not to launch."""
    return isinstance(answer, Mapping) and answer.get("state") == "Skipped"


def skipped(answer: Row) -> str:
    """Return why a triggered run is not launched, as one line."""
    reason = cell(answer.get("reason"))
    why = _SKIPPED.get(reason, reason)
    return f"run {cell(answer.get('run_id'))} is on record as Skipped ({why})"


_SKIPPED = {"overlap": "overlap: an earlier run of this schedule is still open"}
_ATTEMPT = ("n", "state", "worker", "incarnation", "epoch", "permit", "started_at", "ended_at", "exit_code", "reason")


def _lines(title: str, text: str) -> str:
    """Return a text of several lines under its title, each line printable by itself."""
    return "\n".join([f"{title}:", *(f"  {cell(line)}" for line in text.rstrip("\n").split("\n"))])


def _shown(attempt: Row, key: str) -> object:
    lost = key == "state" and attempt.get("unresolved")
    return f"{attempt[key]}, unresolved" if lost else attempt[key]


def _named(value: object) -> str:
    """Return one thing that a change concerned: `demo/close created` for a schedule, else the value."""
    match value:
        case {"namespace": namespace, "name": name, "outcome": outcome}:
            return cell(f"{namespace}/{name} {outcome}")
        case _:
            return cell(value)


def _planned(row: Row) -> str:
    if "scheduled_until" in row:
        return f"{row['scheduled_for']} … {row['scheduled_until']} ({row['count']})"
    return row["scheduled_for"] or f"{row['triggered_at']} (triggered)"
