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


def events(rows: Sequence[Row]) -> str:
    """Return the trail, newest first as it came, and the evidence that its lines stand on."""
    listed = table(
        ["REVISION", "AT", "ACTOR", "RUN", "ATTEMPT", "OP", "FROM", "TO", "WHY"],
        [
            [row.get(key) for key in ("revision", "at", "actor", "run_id", "attempt", "op", "from", "to", "why")]
            for row in rows
        ],
    )
    stood_on = [
        f"  revision {cell(row['revision'])}, {cell(row['op'])} by {cell(row['actor'])}: {cell(row['evidence'])}"
        for row in rows
        if row.get("evidence")
    ]
    return "\n".join([listed, "", "on what evidence:", *stood_on]) if stood_on else listed


def unknown(rows: Sequence[Row]) -> str:
    """Return the attempts that a human may attest, by worker and incarnation as they came."""
    listed = table(
        ["WORKER", "INCARNATION", "RUN", "N", "SCHEDULE", "STATE", "SINCE", "REVISION", "WHY"],
        [
            (
                *(row["worker"], row["incarnation"], row["run_id"], row["attempt"]),
                f"{row['namespace']}/{row['schedule']}",
                f"{row['state']}, superseded" if row["superseded"] else row["state"],
                *(row["since"], row["row_revision"], row["why"]),
            )
            for row in rows
        ],
    )
    if not rows:
        return f"{listed}\n\nNothing is uncertain."
    return f"{listed}\n\n`fencepost show RUN` tells what is known of each. Attest only what you made sure of yourself."


_COUNTS = {"voter": "yes", "catching_up": "catches up", "not_accepted": "not accepted", "retired": "replaced"}


def status(answer: Row) -> str:
    """Return one voter's view of the cluster."""
    keys = (
        "cluster_id",
        "generation",
        "node",
        "role",
        "owner",
        "epoch",
        "revision",
        "term",
        "applied_index",
        "clock",
        "tzdata",
    )
    head = table(["KEY", "VALUE"], [(key, answer.get(key)) for key in keys if key in answer])
    if answer.get("frozen"):
        freeze = answer["frozen"]
        head = f"{head}\n\nFrozen since {cell(freeze['since'])} by {cell(freeze['by'])}: nothing is started."
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
    keys = (
        "namespace",
        "schedule",
        "scheduled_for",
        "triggered_at",
        "run_id",
        "state",
        "reason",
        "caught_up",
        "late_s",
    )
    attempts = answer["attempts"]
    because = "Unknown because" if answer["state"] == "Unknown" else "Not known because"
    return "\n\n".join(
        [
            table(
                ["KEY", "VALUE"],
                [
                    *((key, answer[key]) for key in keys if key in answer),
                    *([("retry", _policy(answer["retry"]))] if "retry" in answer else []),
                ],
            ),
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


def outcome(answer: object) -> str:
    """Return what a change that was done was answered with, one line for each thing it says."""
    told = answer if isinstance(answer, Mapping) else {}
    done = "on record, not launched" if is_skipped(told) else "done"
    lines = [f"{done} before, under this key" if told.get("again") else done]
    for key, value in told.items():
        each = value if isinstance(value, list) else [value]
        lines += [f"{cell(key)}: {named(one)}" for one in each if key != "again"]
    return "\n".join(lines)


def is_skipped(answer: object) -> bool:
    """Return whether a trigger was answered with a run that policy decided not to launch."""
    return isinstance(answer, Mapping) and answer.get("state") == "Skipped"


def skipped(answer: Row) -> str:
    """Return why a triggered run is not launched, as one line."""
    reason = cell(answer.get("reason"))
    why = _SKIPPED.get(reason, reason)
    return f"run {cell(answer.get('run_id'))} is on record as Skipped ({why})"


_LEFT = {
    "has_run": "it has a run",
    "pruned": "what was there is forgotten by retention",
    "restored": "it was before a restore, and may have run",
}
_SKIPPED = {
    "overlap": "overlap: an earlier run of this schedule is still open",
    "queue_full": "queue_full: as many runs as may wait for an earlier one do so already",
}
_ATTEMPT = ("n", "state", "worker", "incarnation", "epoch", "permit", "started_at", "ended_at", "exit_code", "reason")


def _lines(title: str, text: str) -> str:
    """Return a text of several lines under its title, each line printable by itself."""
    return "\n".join([f"{title}:", *(f"  {cell(line)}" for line in text.rstrip("\n").split("\n"))])


def _shown(attempt: Row, key: str) -> object:
    marks = [mark for mark in ("unresolved", "superseded") if key == "state" and attempt.get(mark)]
    return ", ".join([attempt[key], *marks]) if marks else attempt[key]


def _policy(retry: Row) -> str:
    """Return a retry policy in words: `3 attempts; pauses of 1 s, each later one 2 times as long, at most 300 s`."""
    if retry["attempts"] == 1:
        return "1 attempt"
    first_s, most_s = (f"{retry[key] / 1_000:g} s" for key in ("backoff_ms", "max_ms"))
    codes = retry["on_exit_codes"]
    only = "" if codes is None else f"; only after exit codes {', '.join(map(str, codes))}"
    pauses = f"pauses of {first_s}, each later one {retry['factor']:g} times as long, at most {most_s}"
    return f"{retry['attempts']} attempts; {pauses}{only}"


def named(value: object) -> str:
    """Return one thing that a change concerned: `demo/close created` for a schedule, else the value."""
    match value:
        case {"namespace": namespace, "name": name, "outcome": outcome}:
            return cell(f"{namespace}/{name} {outcome}")
        case {"scheduled_for": scheduled_for, "why": why}:
            return cell(f"{scheduled_for} alone ({_LEFT.get(why, why)})")
        case {"run_id": run_id, "attempt": attempt, "state": state, "run_state": run_state}:
            return cell(f"attempt {attempt} of run {run_id} is {state}, the run {run_state}")
        case _:
            return cell(value)


def _planned(row: Row) -> str:
    if "scheduled_until" in row:
        return f"{row['scheduled_for']} … {row['scheduled_until']} ({row['count']})"
    return row["scheduled_for"] or f"{row['triggered_at']} (triggered)"
